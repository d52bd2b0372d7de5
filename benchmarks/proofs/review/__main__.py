"""Acceptance of the texts of claims after their review against the checks.

``python -m dpwitness.benchmarks.proofs.review ID...``
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import dpwitness
from dpwitness.benchmarks.proofs.review.reviewed_texts import accept, differences, read_reviewed
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.proofs_checks.engine.ledger import declaration

FILE = Path(dpwitness.__file__).resolve().parents[1] / "reports" / "published" / "claim-texts.json"


def main(names: Sequence[str], file: Path = FILE) -> None:
    """Print what has changed in each claim, and accept its present text and check."""
    reviewed, claims = read_reviewed(file), [declaration(name) for name in names]
    for claim in claims:
        print("\n".join(differences(claim, reviewed)) or f"{claim.id}: nothing changed")
    accept(file, *claims)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", metavar="ID", nargs="+", help="see `dpwitness list claims`")
    try:
        main(parser.parse_args().ids)
    except InvalidArgument as error:
        parser.error(str(error))
