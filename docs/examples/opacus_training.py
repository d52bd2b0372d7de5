"""Opacus as a target file for `dpwitness audit FILE:NAME --python PYTHON`: a model and the bounds of its data, nothing else.

Clipping: without noise, one step with learning rate 1 moves the parameters by the sum of the clipped gradients. A record that is added or
removed may change this sum by `max_grad_norm`. Noise: the step of a model whose gradients are as long as `max_grad_norm`. Accounting:
`get_epsilon` against the exact figure. Each target makes its model private with `PrivacyEngine.make_private`.
"""

import functools
import warnings

import numpy as np
import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

MAX_GRAD_NORM, NOISE, ROWS = 1.0, 2.0, 3
STEPS, FEATURES = 4, 2  # a record is a sequence of STEPS inputs with FEATURES numbers, and a label for each step

warnings.simplefilter("ignore")
torch.set_num_threads(1)


class Tied(torch.nn.Module):
    """Two layers that share a weight."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(FEATURES, FEATURES, bias=False)
        self.second = torch.nn.Linear(FEATURES, FEATURES, bias=False)
        self.second.weight = self.first.weight
        self.last = torch.nn.Linear(FEATURES, 1)

    def forward(self, x):
        return self.last(self.second(torch.tanh(self.first(x))))


MODELS = {
    "linear": lambda: torch.nn.Linear(FEATURES, 1),
    "layer_norm": lambda: torch.nn.Sequential(torch.nn.Linear(FEATURES, 3), torch.nn.LayerNorm(3), torch.nn.Linear(3, 1)),
    "tied": Tied,
}
MODES = ("hooks", "functorch", "ghost")


class SquaredError(torch.nn.Module):
    """Half of the squared error of each record, summed over its steps; ghost clipping reads `reduction`."""

    reduction = "sum"

    def forward(self, found, wanted):
        errors = (0.5 * (found - wanted) ** 2).flatten(1).sum(1)
        return errors.sum() if self.reduction == "sum" else errors


@functools.cache
def private(name, mode, rows, noise=0.0):
    """Return the private model, optimizer, loss and initial parameters of one architecture for batches of this number of rows."""
    torch.manual_seed(0)
    model, criterion = MODELS[name](), SquaredError()
    data = TensorDataset(torch.zeros(rows, STEPS, FEATURES), torch.zeros(rows, STEPS, 1))
    options = {"grad_sample_mode": mode, "poisson_sampling": False, "loss_reduction": "sum"}
    made = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        data_loader=DataLoader(data, batch_size=rows),
        noise_multiplier=noise,
        max_grad_norm=MAX_GRAD_NORM,
        **({"criterion": criterion} if mode == "ghost" else {}),
        **options,
    )
    module, optimizer = made[:2]
    start = [parameter.detach().clone() for parameter in module.parameters()]
    return module, optimizer, made[2] if mode == "ghost" else criterion, start


def moved(columns, name, mode, noise=0.0):
    """Return the change of all parameters in one step on a batch of records, as a tensor."""
    module, optimizer, criterion, start = private(name, mode, len(columns), noise)
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), start, strict=True):
            parameter.copy_(value)
    optimizer.zero_grad()
    criterion(module(columns[..., :FEATURES]), columns[..., FEATURES:]).backward()
    optimizer.step()
    return torch.cat([(value - parameter.detach()).flatten() for parameter, value in zip(module.parameters(), start, strict=True)])


def clipped_sum(frame, name, mode):
    """Return the sum of the clipped gradients of a frame of records, as a list of floats."""
    columns = torch.tensor(list(frame.values()), dtype=torch.float32).T.reshape(-1, STEPS, FEATURES + 1)
    if not len(columns):
        return [0.0] * sum(parameter.numel() for parameter in MODELS[name]().parameters())
    return moved(columns, name, mode).double().tolist()


def noisy_step(dataset, size, rng):
    """Parameters of the linear model after steps with noise; replacing a record moves the sum by 2 max_grad_norm at most."""
    torch.manual_seed(int(rng.integers(2**63)))
    columns = torch.tensor(np.asarray(dataset, dtype=np.float32)).reshape(ROWS, STEPS, FEATURES + 1)
    return np.array([moved(columns, "linear", "hooks", NOISE).numpy() for _ in range(size)])


noisy_step.claim = f"gdp:{2 / NOISE}"
noisy_step.domain = {"kind": "Rows", "size": ROWS, "features": ((-1, 1),) * (STEPS * (FEATURES + 1))}


def epsilon(sigma, q, steps, delta):
    """Return the epsilon of the engine's accountant after a number of steps with Poisson sampling."""
    engine = PrivacyEngine(accountant="rdp")
    engine.accountant.history = [(sigma, q, int(steps))]
    return float(engine.get_epsilon(delta))


def bound(d_in):
    """Claim of clipping, with a margin for the rounding of 32-bit floats."""
    return d_in * MAX_GRAD_NORM * (1 + 1e-4)


COLUMNS = {f"{part}{step}": {"dtype": "f64", "bounds": [-1, 1]} for step in range(STEPS) for part in "xyz"}
SUBSAMPLED = {"sigma": "sigma", "q": "q", "steps": "steps", "delta": "delta"}
TARGETS = {
    "epsilon": {
        "kind": "accountant",
        "mechanism": "subsampled-gaussian",
        "parameters": SUBSAMPLED,
        "returns": "epsilon",
        "ranges": {"sigma": [0.5, 50], "delta": [1e-9, 0.1], "steps": [1, 1000]},
    }
}
for model in MODELS:
    for mode in MODES:
        if (model, mode) == ("tied", "ghost"):
            continue  # Opacus refuses this
        globals()[f"{model}_{mode}"] = functools.partial(clipped_sum, name=model, mode=mode)
        TARGETS[f"{model}_{mode}"] = {
            "kind": "transformation",
            "map": "bound",
            "input": {"type": "frame", "columns": COLUMNS, "size": None},
            "input_metric": "symmetric",
            "output_metric": "l2",
            "d_in": [1],
        }
