"""Opacus: one full-batch step of models made private, and an accountant that is read after each
epoch.

The claim of a step is that of the Gaussian mechanism: one record moves the sum of clipped gradients
by at most 2 max_grad_norm.
"""

import inspect
import warnings

import numpy as np
import torch
from library_target import accountants, target
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier

LIBRARY = "opacus"

warnings.simplefilter("ignore")
torch.set_num_threads(1)
_NOISE, _ROWS, _STEPS = 2.0, 4, 8


def _private(model, rows, labels, clip, loss_reduction="sum", **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(rows, labels), batch_size=len(rows)
    )
    return PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=_NOISE,
        max_grad_norm=clip,
        poisson_sampling=False,
        loss_reduction=loss_reduction,
        **options,
    )


class _Half(torch.nn.Module):
    """Half of the squared error of a record, with the attribute `reduction` that ghost clipping
    asks for.
    """

    def __init__(self, reduction="sum"):
        super().__init__()
        self.reduction = reduction

    def forward(self, found, wanted):
        errors = (0.5 * (found - wanted) ** 2).flatten(1).sum(1)  # one number per record
        return errors.sum() if self.reduction == "sum" else errors


def _ghost(model, rows, labels, clip):
    """Module, optimizer, loader and backward pass of ghost clipping, and what the step is to be
    multiplied by for the sum of gradients.

    Before release 1.5.3 the documentation has `double_backward` of the losses of a batch, whose
    reduction is the mean.
    """
    if "criterion" in inspect.signature(PrivacyEngine.make_private).parameters:
        module, optimizer, criterion, loader = _private(
            model, rows, labels, clip, grad_sample_mode="ghost", criterion=_Half()
        )
        return (
            module,
            optimizer,
            loader,
            lambda rows, wanted: criterion(module(rows), wanted).backward(),
            1,
        )
    from opacus.utils.fast_gradient_clipping_utils import double_backward

    module, optimizer, loader = _private(
        model, rows, labels, clip, grad_sample_mode="ghost", clipping="ghost", loss_reduction="mean"
    )
    return (
        module,
        optimizer,
        loader,
        lambda rows, wanted: double_backward(
            module, optimizer, _Half("none")(module(rows), wanted)
        ),
        _ROWS,
    )


_SEQUENCES = target(
    f"gdp:{2 / _NOISE}", batch=1024, kind="Rows", size=_ROWS, features=((-1, 1),) * _STEPS
)


def _labels(dataset, rng):
    """Labels of four sequences, after a seed."""
    torch.manual_seed(int(rng.integers(2**63)))
    return torch.tensor(np.asarray(dataset, dtype=np.float32)).reshape(_ROWS, _STEPS, 1)


def _steps(size, parameters, value, step):
    """Parameters after each of `size` steps from `value`, as flat arrays."""
    found = []
    for _ in range(size):
        with torch.no_grad():
            for parameter in parameters:
                parameter.fill_(value)
        step()
        found.append([float(parameter.detach().ravel()[0]) for parameter in parameters])
    return np.array(found).reshape(size, len(parameters))


def _descend(optimizer, backward):
    """Make one step of gradient descent."""
    optimizer.zero_grad()
    backward()
    optimizer.step()


def _ghost_steps(dataset, size, rng, clip):
    """Change of weight and bias of a linear layer in one step of ghost clipping, in units of the
    clipping norm.
    """
    labels = _labels(dataset, rng)
    rows = torch.full((_ROWS, _STEPS, 1), 0.1)
    module, optimizer, _, backward, scale = _ghost(torch.nn.Linear(1, 1), rows, labels, clip)
    step = lambda: _descend(optimizer, lambda: backward(rows, labels))  # noqa: E731
    return scale * _steps(size, list(module.parameters()), 0.0, step) / clip


@_SEQUENCES
def ghost_sequence(dataset, size, rng):
    """make_private(grad_sample_mode="ghost", max_grad_norm=1): a linear layer on four sequences of
    eight steps, labels in [-1, 1].
    """
    return _ghost_steps(dataset, size, rng, 1.0)


@_SEQUENCES
def ghost_small_norm(dataset, size, rng):
    """The same with max_grad_norm=0.1."""
    return _ghost_steps(dataset, size, rng, 0.1)


class _Tied(torch.nn.Module):
    """Two layers that share a weight."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (
            torch.nn.Linear(1, 1, bias=False),
            torch.nn.Linear(1, 1, bias=False),
        )
        self.second.weight = self.first.weight

    def forward(self, rows):
        return self.second(self.first(rows))


@_SEQUENCES
def tied_layers(dataset, size, rng):
    """make_private(max_grad_norm=1) of two layers that share a weight, on four sequences of eight
    steps, labels in [-1, 1].
    """
    labels = _labels(dataset, rng)
    rows = torch.ones(_ROWS, _STEPS, 1)
    module, optimizer, _ = _private(_Tied(), rows, labels, 1.0)
    weight = list({id(p): p for p in module.parameters()}.values())
    step = lambda: _descend(optimizer, lambda: _Half()(module(rows), labels).backward())  # noqa: E731
    return 0.5 - _steps(size, weight, 0.5, step)


@_SEQUENCES
def ghost_in_parts(dataset, size, rng):
    """Ghost clipping with max_grad_norm=1 of four sequences, two at a time by BatchMemoryManager:
    the change of the weight.
    """
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    labels = _labels(dataset, rng)
    model = torch.nn.Linear(1, 1, bias=False)
    module, optimizer, loader, backward, scale = _ghost(
        model, torch.ones(_ROWS, _STEPS, 1), labels, 1.0
    )
    with BatchMemoryManager(
        data_loader=loader, max_physical_batch_size=2, optimizer=optimizer
    ) as parts:

        def step():
            for rows, wanted in parts:
                _descend(optimizer, lambda: backward(rows, wanted))  # noqa: B023 - called at once

        return scale * _steps(size, list(module.parameters()), 0.0, step)


@_SEQUENCES
def stepped_by_closure(dataset, size, rng):
    """optimizer.step(closure) of a linear layer on four sequences, max_grad_norm=1: the change of
    the weight.
    """
    labels = _labels(dataset, rng)
    rows = torch.ones(_ROWS, _STEPS, 1)
    module, optimizer, _ = _private(torch.nn.Linear(1, 1, bias=False), rows, labels, 1.0)

    def closure():
        optimizer.zero_grad()
        loss = _Half()(module(rows), labels)
        loss.backward()
        return loss

    return _steps(size, list(module.parameters()), 0.0, lambda: optimizer.step(closure))


@target(
    f"gdp:{1 / _NOISE}", batch=256, kind="Records", size=4, low=-1, high=1, relation="add-remove"
)
def averaged_step(dataset, size, rng):
    """make_private with its defaults, Poisson sampling and mean reduction, of a linear layer: the
    first step of an epoch.

    Up to four labels in [-1, 1] among four public ones, batch_size=4; one more or less.
    """
    labels = torch.tensor([0.0] * 4 + [float(value) for value in np.ravel(dataset)]).reshape(-1, 1)
    torch.manual_seed(int(rng.integers(2**63)))
    model, found = torch.nn.Linear(1, 1, bias=False), np.empty((size, 1))
    with torch.no_grad():
        model.weight.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.ones_like(labels), labels), batch_size=4
    )
    engine = PrivacyEngine()
    module, optimizer, loader = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=_NOISE,
        max_grad_norm=1.0,
    )
    for i in range(size):
        with torch.no_grad():
            model.weight.zero_()
        rows, wanted = next(iter(loader))
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(module(rows), wanted).backward()
        optimizer.step()
        found[i] = float(model.weight.detach())
    return found


def _gdp_twice(sigma, steps, delta):
    """PrivacyEngine(accountant="gdp").get_epsilon after each of two epochs with full batches: the
    last figure.
    """
    engine, found = PrivacyEngine(accountant="gdp"), 0.0
    for epoch in (int(steps) // 2, int(steps) - int(steps) // 2):
        for _ in range(epoch):
            engine.accountant.step(noise_multiplier=sigma, sample_rate=1.0)
        if epoch:
            found = float(engine.get_epsilon(delta))
    return found


TARGETS = accountants(
    globals(),
    gdp_twice=(
        "gaussian",
        "epsilon",
        _gdp_twice,
        {"sigma": [0.5, 50], "delta": [1e-9, 0.1], "steps": [1, 1000]},
    ),
    # full batches: the noise that is to keep (epsilon, delta) over `steps` epochs
    noise_for_target=(
        "gaussian",
        "noise",
        lambda epsilon, delta, steps: get_noise_multiplier(
            target_epsilon=epsilon, target_delta=delta, sample_rate=1.0, epochs=int(steps)
        ),
        {"epsilon": [0.1, 100], "delta": [1e-9, 0.1], "steps": [1, 1000]},
    ),
)
