"""Opacus: the accountant of steps with adaptive clipping.

The noise multiplier is that of all that a step releases, as the documentation of the optimizer
refers to its paper.
"""

import warnings

import torch
from library_target import accountants
from opacus import PrivacyEngine

LIBRARY = "opacus"

warnings.simplefilter("ignore")
torch.set_num_threads(1)


def _adaptive_steps(sigma, steps, delta):
    """Epsilon after `steps` steps with full batches of a model that
    make_private(clipping="adaptive") has made private.
    """
    model, rows = torch.nn.Linear(1, 1), torch.ones(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(rows, torch.zeros(4, 1)), batch_size=4
    )
    engine = PrivacyEngine(accountant="rdp")
    module, optimizer, loader = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=float(sigma),
        max_grad_norm=1.0,
        poisson_sampling=False,
        clipping="adaptive",
        target_unclipped_quantile=0.5,
        clipbound_learning_rate=0.2,
        max_clipbound=10.0,
        min_clipbound=0.1,
        unclipped_num_std=4.0,
    )
    for _ in range(int(steps)):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(module(rows), torch.zeros(4, 1)).backward()
        optimizer.step()
    return float(engine.get_epsilon(delta))


TARGETS = accountants(
    globals(),
    adaptive_steps=(
        "gaussian",
        "epsilon",
        _adaptive_steps,
        {"sigma": [1, 7], "delta": [1e-9, 0.1], "steps": [1, 20]},
    ),
)
