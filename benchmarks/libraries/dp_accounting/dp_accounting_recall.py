"""Accountants of dp-accounting under replacement: the noise multiplier is the noise over the bound
on a value, as events define it.
"""

from dp_accounting import dp_event, privacy_accountant, rdp

LIBRARY = "dp-accounting"

TARGETS = {
    "replaced_gaussian": {
        "kind": "accountant",
        "mechanism": "gaussian",
        "parameters": {"sigma": "sigma", "sensitivity": "sensitivity", "order": "order"},
        "returns": "rdp",
    }
}


def replaced_gaussian(sigma, sensitivity, order):
    """RdpAccountant(REPLACE_ONE) of a Gaussian sum of values of norm at most half of the
    sensitivity.
    """
    found = rdp.RdpAccountant([order], privacy_accountant.NeighboringRelation.REPLACE_ONE)
    found.compose(dp_event.GaussianDpEvent(noise_multiplier=sigma / (sensitivity / 2)))
    return float(found._rdp[0])
