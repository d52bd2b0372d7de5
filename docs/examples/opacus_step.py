"""Opacus' optimizer and its Poisson sampler as one step that can be audited. Needs torch and
opacus.
"""

import torch
from opacus.optimizers import DPOptimizer
from opacus.utils.uniform_sampler import UniformWithReplacementSampler


def update(gradients, rng, noise=1.0, rate=0.25, norm=1.0):
    """The noisy sum of a batch: what the optimizer subtracts from a parameter that starts at 0, at
    learning rate 1.
    """
    torch.manual_seed(int(rng.integers(2**63)))
    found = next(
        iter(UniformWithReplacementSampler(num_samples=len(gradients), sample_rate=rate, steps=1)),
        [],
    )
    parameter = torch.nn.Parameter(torch.zeros(gradients.shape[1], dtype=torch.float64))
    options = {
        "noise_multiplier": noise,
        "max_grad_norm": norm,
        "expected_batch_size": 1,
        "loss_reduction": "sum",
    }
    optimizer = DPOptimizer(torch.optim.SGD([parameter], lr=1.0), **options)
    parameter.grad_sample = torch.tensor(gradients[found])
    optimizer.step()
    return -parameter.detach().numpy()
