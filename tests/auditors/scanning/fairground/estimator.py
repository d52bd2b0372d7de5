"""An estimator with the conventions of scikit-learn."""

import numpy as np


class PrivateMeanModel:
    """Private means of columns.

    Attributes
    ----------
    mean_ : ndarray
        Noisy means.
    """

    def __init__(self, epsilon=1.0, bounds=None, random_state=None):
        self.epsilon, self.bounds, self.random_state = epsilon, bounds, random_state

    def fit(self, X, y=None):
        """Fit."""
        low, high = np.asarray(self.bounds, dtype=float)
        noise = np.random.RandomState(self.random_state).laplace(
            0.0, (high - low) * X.shape[1] / len(X) / self.epsilon
        )
        self.mean_ = np.clip(X, low, high).mean(axis=0) + noise
        return self
