import numpy as np
from mine import noisy_sum

import dpwitness as dpw


def test_noisy_sum_keeps_epsilon_1(dp_audit):
    dp_audit(noisy_sum, claim="pure:1", pair=dpw.Pair(np.array([0.0]), np.array([1.0])))
