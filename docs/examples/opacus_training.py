"""Opacus as a target file for `dpwitness audit FILE:NAME --python PYTHON`: a model and the bounds
of its data, nothing else.

Clipping: without noise, one step with learning rate 1 moves the parameters by the sum of the
clipped gradients. A record that is added or removed may change this sum by `max_grad_norm`. Noise
and sampling: steps of the private loader and optimizer, with the claim that follows from the
accountant's record of noise, rate and steps. Accounting: `get_epsilon` against the exact figure.
Each target makes its model private with `PrivacyEngine.make_private`.
"""

import functools
import inspect
import warnings

import numpy as np
import torch
from opacus import PrivacyEngine
from opacus.layers import DPLSTM
from torch.utils.data import DataLoader, TensorDataset

MAX_GRAD_NORM, NOISE, ROWS = 0.5, 2.0, 3
# a record is a sequence of STEPS inputs with FEATURES numbers, and a label for each step
STEPS, FEATURES = 4, 2
RECORDS, BATCH, SAMPLED_NOISE = 8, 2, 0.4  # of the sampled epoch
ADAPTIVE = {
    "clipping": "adaptive",
    "target_unclipped_quantile": 0.5,
    "clipbound_learning_rate": 1.0,
    "max_clipbound": 1e6,
    "min_clipbound": 1e-6,
    "unclipped_num_std": 0.6 * NOISE,  # Opacus asks for more than half of the noise multiplier
}

warnings.simplefilter("ignore")
torch.set_num_threads(1)
try:
    # ghost clipping before Opacus 1.5.3
    from opacus.utils.fast_gradient_clipping_utils import double_backward
except ImportError:
    double_backward = None


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


class Recurrent(torch.nn.Module):
    """A recurrent layer over the steps of a sequence."""

    def __init__(self):
        super().__init__()
        self.recurrent, self.last = DPLSTM(FEATURES, 2, batch_first=True), torch.nn.Linear(2, 1)

    def forward(self, x):
        return self.last(self.recurrent(x)[0])


MODELS = {
    "linear": lambda: torch.nn.Linear(FEATURES, 1),
    "no_bias": lambda: torch.nn.Linear(FEATURES, 1, bias=False),
    "layer_norm": lambda: torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 3), torch.nn.LayerNorm(3), torch.nn.Linear(3, 1)
    ),
    "tied": Tied,
    "recurrent": Recurrent,
}
MODES = ("hooks", "functorch", "ghost")


class SquaredError(torch.nn.Module):
    """Half of the squared error of each record, summed over its steps; ghost clipping reads
    `reduction`.
    """

    reduction = "sum"

    def forward(self, found, wanted):
        errors = (0.5 * (found - wanted) ** 2).flatten(1).sum(1)
        return errors.sum() if self.reduction == "sum" else errors


class Private:
    """Model made private with full batches; `moved` is the change of its parameters in one step
    with learning rate 1.
    """

    def __init__(self, name, mode, rows, noise=0.0, clip=MAX_GRAD_NORM, **options):
        torch.manual_seed(0)
        model, self.criterion, self.engine = MODELS[name](), SquaredError(), PrivacyEngine()
        data = TensorDataset(torch.zeros(rows, STEPS, FEATURES), torch.zeros(rows, STEPS, 1))
        # which divides by the number of rows
        self.twice = mode == "ghost" and double_backward is not None
        self.unit = rows if self.twice else 1
        if mode != "hooks":
            options["grad_sample_mode"] = mode
        if mode == "ghost":
            options |= {"clipping": "ghost"} if self.twice else {"criterion": self.criterion}
        made = self.engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
            data_loader=DataLoader(data, batch_size=rows),
            noise_multiplier=noise,
            max_grad_norm=clip,
            poisson_sampling=False,
            loss_reduction="mean" if self.twice else "sum",
            **options,
        )
        self.module, self.optimizer = made[:2]
        if self.twice:
            self.criterion.reduction = "none"
        elif mode == "ghost":
            self.criterion = made[2]
        self.start = [parameter.detach().clone() for parameter in self.module.parameters()]

    def moved(self, columns, parts=1):
        """Return the change of all parameters by a batch of records, in so many physical batches,
        as a tensor.
        """
        with torch.no_grad():
            for parameter, value in zip(self.module.parameters(), self.start, strict=True):
                parameter.copy_(value)
        physical = columns.tensor_split(min(parts, len(columns)))
        for number, part in enumerate(physical):
            if parts > 1:  # as BatchMemoryManager does
                self.optimizer.signal_skip_step(do_skip=number + 1 < len(physical))
            self.optimizer.zero_grad()
            loss = self.criterion(self.module(part[..., :FEATURES]), part[..., FEATURES:])
            if self.twice:
                double_backward(self.module, self.optimizer, loss)
            else:
                loss.backward()
            self.optimizer.step()
        pairs = zip(self.module.parameters(), self.start, strict=True)
        return self.unit * torch.cat(
            [(value - parameter.detach()).flatten() for parameter, value in pairs]
        )


private = functools.cache(Private)


def records(values):
    """Return numbers as a tensor of records."""
    return torch.as_tensor(np.asarray(values, dtype=np.float32)).reshape(-1, STEPS, FEATURES + 1)


def clipped_sum(frame, name, mode, clip=MAX_GRAD_NORM, parts=1):
    """Return the sum of the clipped gradients of a frame of records, as a list of floats."""
    columns = records(np.array(list(frame.values())).T)
    if not len(columns):
        return [0.0] * sum(parameter.numel() for parameter in MODELS[name]().parameters())
    return private(name, mode, len(columns), clip=clip).moved(columns, parts).double().tolist()


def noisy_step(dataset, size, rng):
    """Parameters of the linear model after steps with noise; replacing a record moves the sum by 2
    max_grad_norm at most.
    """
    made = private("linear", "hooks", ROWS, NOISE)
    torch.manual_seed(int(rng.integers(2**63)))
    return np.array([made.moved(records(dataset)).numpy() for _ in range(size)])


def adaptive_step(dataset, size, rng):
    """Parameters after a step with adaptive clipping, and the next clipping norm, which a noisy
    count of clipped records determines.
    """
    made, found = Private("linear", "hooks", ROWS, NOISE, **ADAPTIVE), []
    torch.manual_seed(int(rng.integers(2**63)))
    for _ in range(size):
        made.optimizer.max_grad_norm = MAX_GRAD_NORM
        found.append(
            [
                *made.moved(records(dataset)).tolist(),
                float(np.log(float(made.optimizer.max_grad_norm))),
            ]
        )
    return np.array(found)


def epochs(values, poisson, count):
    """Yield the steps of a parameter over each of some epochs, and then the history of the
    accountant.

    The gradient of a record is its only number, in [0, 1] where 1 is the clipping norm.
    """
    data, engine, model = (
        TensorDataset(torch.as_tensor(values).float().reshape(-1, 1)),
        PrivacyEngine(),
        torch.nn.Linear(1, 1, bias=False),
    )
    module, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        data_loader=DataLoader(data, batch_size=BATCH, shuffle=True),
        noise_multiplier=SAMPLED_NOISE,
        max_grad_norm=1.0,
        poisson_sampling=poisson,
        loss_reduction="sum",
    )
    (weight,) = module.parameters()
    for _ in range(count):
        steps = []
        for (batch,) in loader:
            weight.data.zero_()
            optimizer.zero_grad()
            module(batch).sum().backward()
            optimizer.step()
            steps.append(-weight.item())
        yield steps
    yield engine.accountant.history


def sampled_epoch(dataset, size, rng, poisson=True):
    """Noisy sums of all batches of an epoch; a record that enters more often than declared, or in a
    pattern, shows.
    """
    torch.manual_seed(int(rng.integers(2**63)))
    return np.array(list(epochs(np.asarray(dataset), poisson, size))[:-1])


def shuffled_epoch(dataset, size, rng):
    """The same with poisson_sampling=False, where Opacus accounts as if there were Poisson
    sampling.
    """
    return sampled_epoch(dataset, size, rng, poisson=False)


def recorded_noise(**options):
    """Return the noise multiplier that the accountant records for a step."""
    made = Private("linear", "hooks", ROWS, NOISE, **options)
    made.moved(records(np.zeros(ROWS * STEPS * (FEATURES + 1))))
    return made.engine.accountant.history[0][0]


(recorded,) = list(epochs(np.zeros(RECORDS), True, 1))[-1]
noisy_step.claim = f"gdp:{2 / recorded_noise()}"
# of adaptive clipping, from Opacus 1.5 on
if "kwargs" in inspect.signature(PrivacyEngine.make_private).parameters:
    adaptive_step.claim = f"gdp:{2 / recorded_noise(**ADAPTIVE)}"
for target in (noisy_step, adaptive_step):
    target.domain = {
        "kind": "Rows",
        "size": ROWS,
        "features": ((-1, 1),) * (STEPS * (FEATURES + 1)),
    }
for target in (sampled_epoch, shuffled_epoch):
    target.claim = f"dpsgd:{recorded[1]},{recorded[0]},{recorded[2]}"
    target.domain = {"kind": "Rows", "size": RECORDS, "features": ((0, 1),)}


def epsilon(sigma, q, steps, delta, accountant="rdp"):
    """Return the epsilon of the engine's accountant after a number of steps with
    Poisson sampling.
    """
    engine = PrivacyEngine(accountant=accountant)
    engine.accountant.history = [(sigma, q, int(steps))]
    return float(engine.get_epsilon(delta))


def epsilon_prv(sigma, q, steps, delta):
    """Return the same of the accountant by privacy random variables, with its margin of error."""
    return epsilon(sigma, q, steps, delta, "prv")


def epsilon_each_epoch(sigma, steps, delta):
    """Return the last epsilon of a training whose epsilon is read after each epoch, with full
    batches.
    """
    engine, found = PrivacyEngine(accountant="gdp"), 0.0
    for epoch in (int(steps) // 2, int(steps) - int(steps) // 2):
        for _ in range(epoch):
            engine.accountant.step(noise_multiplier=sigma, sample_rate=1.0)
        if epoch:
            found = float(engine.get_epsilon(delta))
    return found


def bound(d_in):
    """Claim of clipping, with a margin for the rounding of 32-bit floats."""
    return d_in * MAX_GRAD_NORM * (1 + 1e-4)


def bound_of_parts(d_in):
    """Claim of clipping to norm 1."""
    return d_in * (1 + 1e-4)


COLUMNS = {
    f"{part}{step}": {"dtype": "f64", "bounds": [-1, 1]} for step in range(STEPS) for part in "xyz"
}
SUBSAMPLED = {"sigma": "sigma", "q": "q", "steps": "steps", "delta": "delta"}
ACCOUNTANT = {
    "kind": "accountant",
    "mechanism": "subsampled-gaussian",
    "parameters": SUBSAMPLED,
    "returns": "epsilon",
    "ranges": {"sigma": [0.5, 50], "delta": [1e-9, 0.1], "steps": [1, 1000]},
}
WITHOUT_SAMPLING = {
    "mechanism": "gaussian",
    "parameters": {key: key for key in ("sigma", "steps", "delta")},
}
TARGETS = {
    "epsilon": ACCOUNTANT,
    "epsilon_prv": ACCOUNTANT,
    "epsilon_each_epoch": ACCOUNTANT | WITHOUT_SAMPLING,
}
CLIPPING = {
    "kind": "transformation",
    "map": "bound",
    "input": {"type": "frame", "columns": COLUMNS, "size": None},
    "input_metric": "symmetric",
    "output_metric": "l2",
    "d_in": [1],
}
for model in MODELS:
    for mode in MODES:
        if (model, mode) == ("tied", "ghost"):
            continue  # Opacus refuses this
        globals()[f"{model}_{mode}"] = functools.partial(clipped_sum, name=model, mode=mode)
        TARGETS[f"{model}_{mode}"] = CLIPPING
for mode in MODES:  # batches that are split to save memory
    globals()[f"parts_{mode}"] = functools.partial(
        clipped_sum, name="no_bias", mode=mode, clip=1.0, parts=2
    )
    TARGETS[f"parts_{mode}"] = CLIPPING | {"map": "bound_of_parts"}
