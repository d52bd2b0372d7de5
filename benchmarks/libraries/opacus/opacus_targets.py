"""Opacus: steps of its optimizer and whole training runs of a one-parameter model. Every claim is
the epsilon of its accountant.

A record is a gradient. PyTorch's generator, which gives the optimizer's noise and the data loader's
order, is seeded once per call.
"""

import functools
import warnings

import numpy as np
import torch
from library_target import target
from opacus import PrivacyEngine
from opacus.accountants import PRVAccountant
from opacus.optimizers import DPOptimizer
from torch.utils.data import DataLoader, TensorDataset

LIBRARY = "opacus"

warnings.simplefilter("ignore")  # of hooks that a model without layers does not need
torch.set_num_threads(1)

_LOW_BITS = (
    "Gaussian noise is added to the sum of gradients as a float that is not rounded to a "
    "grid; the low bits of the new parameter depend on "
    "the exact gradient. `secure_mode` adds four draws, which hides the noise's own bits but "
    "not the rounding of the sum."
)


def _accounted(noise, steps, rate, delta):
    """What the accountant says of `steps` steps: (epsilon, delta)."""

    @functools.cache
    def claim():
        accountant = PRVAccountant()
        accountant.history = [(noise, rate, steps)]
        return f"approx:{float(accountant.get_epsilon(delta))!r},{delta!r}"

    return claim


def _step(doc, secure):
    """Return the target of the new parameter after one step from 0 with noise multiplier 4 and
    learning rate 1.
    """

    def run(dataset, size, rng):
        torch.manual_seed(int(rng.integers(2**63)))
        parameter = torch.nn.Parameter(torch.zeros(1))
        inner = torch.optim.SGD([parameter], lr=1.0)
        optimizer = DPOptimizer(
            inner,
            noise_multiplier=4.0,
            max_grad_norm=1.0,
            expected_batch_size=1,
            secure_mode=secure,
        )
        gradients = torch.tensor(np.asarray(dataset, dtype=np.float32).reshape(-1, 1))
        found = np.empty(size)
        for i in range(size):
            optimizer.zero_grad()
            parameter.data.zero_()
            parameter.grad_sample = gradients.clone()
            optimizer.step()
            found[i] = parameter.item()
        return found

    one = {"kind": "Answers", "length": 1, "low": -1, "high": 1, "relation": "l2"}
    return target(_accounted(4.0, 1, 1.0, 1e-5), _LOW_BITS, doc, **one)(run)


step = _step("DPOptimizer, one step with noise multiplier 4.", secure=False)
step_secure = _step("DPOptimizer(secure_mode=True), one step with noise multiplier 4.", secure=True)


class _Linear(torch.nn.Module):
    """Loss x . w: the gradient of a record is the record."""

    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, 1, bias=False)
        torch.nn.init.zeros_(self.layer.weight)

    def forward(self, x):
        return self.layer(x)


def _engine(rows, batch, noise, poisson, reduction="sum"):
    """Model, optimizer and loader made private."""
    model = _Linear(rows.shape[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loader = DataLoader(TensorDataset(rows), batch_size=batch, shuffle=True)
    return PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=noise,
        max_grad_norm=1.0,
        poisson_sampling=poisson,
        loss_reduction=reduction,
    )


def _epoch(rows, batch, noise, poisson):
    """The steps (size of each parameter change) of one epoch, from the largest down: the order of
    the records is random.
    """
    model, optimizer, loader = _engine(rows, batch, noise, poisson)
    weights = [0.0]
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        weights.append(model._module.layer.weight.item())
    return np.sort(-np.diff(weights))[::-1]


def _epochs(doc, poisson, cause=""):
    """Return the target of the five largest of 100 steps of one epoch."""

    def run(dataset, size, rng):
        torch.manual_seed(int(rng.integers(2**63)))
        # a record that is absent has gradient 0: the number of steps is public
        rows = np.zeros((100, 1), dtype=np.float32)
        rows[: len(dataset), 0] = dataset
        return np.array([_epoch(torch.tensor(rows), 1, 0.7, poisson)[:5] for _ in range(size)])

    hundred = {"kind": "Records", "size": 100, "low": -1, "high": 1, "relation": "add-remove"}
    claim = _accounted(0.7, 100, 0.01, 0.01)
    return target(claim, cause, doc, batch=16, trials=6000, **hundred)(run)


epoch_shuffled = _epochs(
    "make_private(poisson_sampling=False): the five largest of 100 steps of one epoch, batch 1, "
    "noise multiplier 0.7.",
    False,
    "With `poisson_sampling=False` the loader shuffles, and each record is used in exactly "
    "one step of an epoch. The accountant still "
    "assumes that every step draws each record with probability 1/100, independently. Among "
    "others of gradient -1 a record of gradient 1 "
    "shows in the largest step.",
)
epoch_poisson = _epochs(
    "make_private(poisson_sampling=True): the five largest of 100 steps of one epoch, expected "
    "batch 1, noise multiplier 0.7.",
    True,
)


@target(
    _accounted(4.0, 1, 0.5, 1e-5),
    "With loss_reduction='mean' the noisy sum is divided by `expected_batch_size`, which "
    "`make_private` computes from the number of "
    "records. Under add/remove that number is not public: the scale of 1,000 noisy "
    "coordinates shows whether it is 5 or 4.",
    kind="Records",
    size=10,
    low=-1,
    high=1,
    relation="add-remove",
)
def expected_batch_size(dataset, size, rng):
    """make_private with 1,000 parameters, batch 5: the norm of the first parameter change."""
    torch.manual_seed(int(rng.integers(2**63)))
    rows = torch.tensor(
        np.repeat(np.asarray(dataset, dtype=np.float32).reshape(-1, 1), 1000, axis=1)
        / np.float32(1000**0.5)
    )
    found = np.empty(size)
    for i in range(size):
        model, optimizer, loader = _engine(rows, 5, 4.0, True, "mean")
        (x,) = next(iter(loader))
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        found[i] = model._module.layer.weight.norm().item()
    return found
