import pandas as pd

import dpwitness as dpw


def total(visits: pd.DataFrame, size, rng):
    # clips each row, not the sum of a user
    return visits["spent"].clip(0, 1).sum() + rng.laplace(0.0, 1.0, size)


rows = dpw.domains.Table({"spent": (0.0, 9.0), "city": ["Ulm", "Bern"]}, relation="add-remove")
users = dpw.domains.Table({"spent": (0.0, 9.0), "city": ["Ulm", "Bern"]}, user="user", per_user=4)
for domain in (rows, users):
    print(
        domain.relation,
        dpw.audit(total, claim="pure:1", domain=domain, trials=20_000, seed=1).verdict.value,
    )
