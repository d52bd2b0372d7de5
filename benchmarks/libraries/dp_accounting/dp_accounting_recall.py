"""Accountants of dp-accounting under replacement: the noise multiplier is the noise over the bound
on a value, as events define it.
"""

from dp_accounting import dp_event, privacy_accountant, rdp
from library_target import accountants

LIBRARY = "dp-accounting"


def _replaced_gaussian(sigma, sensitivity, order):
    """RdpAccountant(REPLACE_ONE) of a Gaussian sum of values of norm at most half of the
    sensitivity.
    """
    found = rdp.RdpAccountant([order], privacy_accountant.NeighboringRelation.REPLACE_ONE)
    found.compose(dp_event.GaussianDpEvent(noise_multiplier=sigma / (sensitivity / 2)))
    return float(found._rdp[0])


TARGETS = accountants(globals(), replaced_gaussian=("gaussian", "rdp", _replaced_gaussian, {}))
