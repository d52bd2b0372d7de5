"""Opacus: one full-batch step of models made private, and an accountant that is read after each epoch.

The claim of a step is that of the Gaussian mechanism: one record moves the sum of clipped gradients by at most 2 max_grad_norm.
"""

import warnings

import numpy as np
import torch
from opacus import PrivacyEngine

LIBRARY = "opacus"

warnings.simplefilter("ignore")
torch.set_num_threads(1)
_NOISE, _ROWS, _STEPS = 2.0, 4, 8


def _private(model, rows, labels, clip, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows, labels), batch_size=len(rows))
    return PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=_NOISE,
        max_grad_norm=clip,
        poisson_sampling=False,
        loss_reduction="sum",
        **options,
    )


class _Half(torch.nn.Module):
    """Half of the squared error of a record, with the attribute `reduction` that ghost clipping asks for."""

    def __init__(self, reduction="sum"):
        super().__init__()
        self.reduction = reduction

    def forward(self, found, wanted):
        errors = (0.5 * (found - wanted) ** 2).flatten(1).sum(1)  # one number per record
        return errors.sum() if self.reduction == "sum" else errors


def _ghost_steps(dataset, size, rng, clip):
    """Change of weight and bias of a linear layer in one step of ghost clipping, in units of the clipping norm."""
    labels = torch.tensor(np.asarray(dataset, dtype=np.float32)).reshape(_ROWS, _STEPS, 1)
    rows = torch.full((_ROWS, _STEPS, 1), 0.1)
    torch.manual_seed(int(rng.integers(2**63)))
    model = torch.nn.Linear(1, 1)
    module, optimizer, criterion, _ = _private(model, rows, labels, clip, grad_sample_mode="ghost", criterion=_Half())
    parameters, found = list(module.parameters()), np.empty((size, 2))
    for i in range(size):
        with torch.no_grad():
            for parameter in parameters:
                parameter.zero_()
        optimizer.zero_grad()
        criterion(module(rows), labels).backward()
        optimizer.step()
        found[i] = [float(parameter.detach().ravel()[0]) / clip for parameter in parameters]
    return found


def ghost_sequence(dataset, size, rng):
    """make_private(grad_sample_mode="ghost", max_grad_norm=1): a linear layer on four sequences of eight steps, labels in [-1, 1]."""
    return _ghost_steps(dataset, size, rng, 1.0)


def ghost_small_norm(dataset, size, rng):
    """The same with max_grad_norm=0.1."""
    return _ghost_steps(dataset, size, rng, 0.1)


class _Tied(torch.nn.Module):
    """Two layers that share a weight."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
        self.second.weight = self.first.weight

    def forward(self, rows):
        return self.second(self.first(rows))


def tied_layers(dataset, size, rng):
    """make_private(max_grad_norm=1) of two layers that share a weight, on four sequences of eight steps, labels in [-1, 1]."""
    labels = torch.tensor(np.asarray(dataset, dtype=np.float32)).reshape(_ROWS, _STEPS, 1)
    rows = torch.ones(_ROWS, _STEPS, 1)
    torch.manual_seed(int(rng.integers(2**63)))
    module, optimizer, _ = _private(_Tied(), rows, labels, 1.0)
    (weight,), found = {id(p): p for p in module.parameters()}.values(), np.empty((size, 1))
    for i in range(size):
        with torch.no_grad():
            weight.fill_(0.5)
        optimizer.zero_grad()
        _Half()(module(rows), labels).backward()
        optimizer.step()
        found[i] = 0.5 - float(weight.detach())
    return found


def gdp_twice(sigma, steps, delta):
    """PrivacyEngine(accountant="gdp").get_epsilon after each of two epochs with full batches: the last figure."""
    engine, found = PrivacyEngine(accountant="gdp"), 0.0
    for epoch in (int(steps) // 2, int(steps) - int(steps) // 2):
        for _ in range(epoch):
            engine.accountant.step(noise_multiplier=sigma, sample_rate=1.0)
        if epoch:
            found = float(engine.get_epsilon(delta))
    return found


TARGETS = {
    "gdp_twice": {
        "kind": "accountant",
        "mechanism": "gaussian",
        "parameters": {name: name for name in ("sigma", "steps", "delta")},
        "returns": "epsilon",
        "ranges": {"sigma": [0.5, 50], "delta": [1e-9, 0.1], "steps": [1, 1000]},
    }
}
for _target in (ghost_sequence, ghost_small_norm, tied_layers):
    _target.claim, _target.batch = f"gdp:{2 / _NOISE}", 1024
    _target.domain = {"kind": "Rows", "size": _ROWS, "features": ((-1, 1),) * _STEPS}
