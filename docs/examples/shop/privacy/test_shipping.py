"""Audits of the shop's claims; confidence is 1 - 1e-9, so that a sound function does not fail."""

from shop import shipping_counts

import dpwitness as dpw


def test_shipping_counts_are_private(dp_audit):
    def run(amounts, rng):
        return shipping_counts(amounts, 1.0, rng)

    pair = dpw.Pair([8.0], [8.0, 82.0], relation="add-remove")
    result = dp_audit(dpw.one_run(run), claim="pure:1", pair=pair, trials=20_000)
    assert result.detectable < 2.0  # the fault would have been found
