"""Opacus on scikit-learn's handwritten digits, audited from one run by canaries: python
opacus_canaries.py [CASE ...]

Needs: pip install dpwitness torch opacus scikit-learn. One case takes about a minute on one core.
"""

import math
import sys
import time
import warnings

import numpy as np
import torch
from opacus import PrivacyEngine
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import dpwitness as dpw

CANARIES, RATE, STEPS, CLIP = 5_000, 0.25, 400, 1.0
NOISE = {8: 3.118, 2: 10.055}  # multipliers for these epsilons at delta 1e-5
LENGTH = 10 * CLIP  # of a canary's gradient, before it is clipped


class Model(nn.Module):
    """A small network, and a layer with one number for each canary, whose gradient is that canary's
    alone.
    """

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
        self.own = nn.Linear(CANARIES, 1, bias=False)

    def forward(self, image, own):
        return self.net(image), self.own(own)[:, 0]


def loss_of(model, image, label, canary):
    """Cross-entropy of real records, the own number of canaries (whose number is -1 for real ones);
    one loss a record.
    """
    real = canary < 0
    own = torch.zeros(len(canary), CANARIES)
    own[~real, canary[~real]] = 1.0
    logits, number = model(image, own)
    return torch.where(
        real, nn.functional.cross_entropy(logits, label, reduction="none"), LENGTH * number
    )


def records(included):
    """Real images, and the canaries that coins put in."""
    digits = load_digits()
    images = torch.tensor(digits.data / 16, dtype=torch.float32)
    chosen = torch.tensor(np.flatnonzero(included))
    canary = torch.cat([torch.full((len(images),), -1), chosen])
    images = torch.cat([images, torch.zeros(len(chosen), 64)])
    labels = torch.cat([torch.tensor(digits.target), torch.zeros(len(chosen), dtype=torch.long)])
    return TensorDataset(images, labels, canary)


def train(included, case, noise, seed):
    """Train once; what each canary's score is, and how many real images the model reads right."""
    torch.manual_seed(seed)
    data, model = records(included), Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    canaries = dpw.canaries.GradientCanaries(CANARIES, CANARIES, LENGTH)
    scores, steps, epoch = np.zeros(CANARIES), 0, round(1 / RATE)
    # plain PyTorch: the gradient of the mean loss is clipped, and noise is added as for single ones
    if case == "clipped by the batch":
        size = len(data) * RATE
        while steps < STEPS:
            image, label, canary = data[torch.nonzero(torch.rand(len(data)) < RATE)[:, 0]]
            optimizer.zero_grad()
            (loss_of(model, image, label, canary).sum() / size).backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            for p in model.parameters():
                p.grad += torch.randn_like(p) * noise * CLIP / size
            optimizer.step()
            scores += canaries.scores(model.own.weight.grad.numpy())
            steps += 1
    else:
        private, optimizer, loader = PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            # Opacus takes 1 / len(loader) for the rate
            data_loader=DataLoader(data, batch_size=math.ceil(len(data) * RATE)),
            noise_multiplier=noise * (0.5 if case == "noise halved" else 1.0),
            max_grad_norm=CLIP,
        )
        if case == "not clipped":  # as if gradients were short anyway
            optimizer.max_grad_norm, optimizer.noise_multiplier = 1e6, noise * CLIP / 1e6
        while steps < STEPS:
            for image, label, canary in loader:
                optimizer.zero_grad()
                if case == "noise once an epoch":
                    optimizer.noise_multiplier = noise * (steps % epoch == 0)
                loss_of(private, image, label, canary).mean().backward()
                optimizer.step()
                scores += canaries.scores(model.own.weight.grad.numpy())
                steps += 1
                if steps == STEPS:
                    break
    real = torch.tensor(load_digits().data / 16, dtype=torch.float32)
    right = (model.net(real).argmax(dim=1).numpy() == load_digits().target).mean()
    return scores, right


CASES = (
    "correct",
    "noise halved",
    "not clipped",
    "clipped by the batch",
    "noise once an epoch",
    "wrong sampling rate",
)


def audit(case, epsilon, seed=1):
    """One training, one audit."""
    begin = time.process_time()
    included = np.random.default_rng(seed).random(CANARIES) < 0.5
    scores, right = train(included, case, NOISE[epsilon], seed)
    told = RATE / 4 if case == "wrong sampling rate" else RATE  # what the accountant was told
    claim = dpw.claims.DPSGD(told, NOISE[epsilon], STEPS)
    result = dpw.audit_canaries(scores[included], scores[~included], claim, name=f"Opacus, {case}")
    return result, right, time.process_time() - begin


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of hooks and of Opacus' insecure generator
    torch.set_num_threads(1)
    for epsilon, case in [(8, "correct"), *((2, case) for case in CASES)]:
        if case in (sys.argv[1:] or CASES):
            result, right, seconds = audit(case, epsilon)
            found = f"{result.verdict.name:<11} epsilon >= {result.epsilon_lower:5.2f}"
            print(
                f"epsilon {epsilon}  {case:<21} {found}   images right {right:.0%}   "
                f"{seconds:.0f} s",
                flush=True,
            )
