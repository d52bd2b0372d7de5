"""``python -m dpwitness.benchmarks.proofs.review ID...``: accept the texts of claims after their
review against the checks.
"""

import sys
from pathlib import Path

import dpwitness
from dpwitness.benchmarks.proofs.review.reviewed_texts import accept, differences, read_reviewed
from dpwitness.proofs_checks.engine.ledger import declaration

FILE = Path(dpwitness.__file__).resolve().parents[1] / "reports" / "published" / "claim-texts.json"

if __name__ == "__main__":
    reviewed, claims = read_reviewed(FILE), [declaration(name) for name in sys.argv[1:]]
    for claim in claims:
        print("\n".join(differences(claim, reviewed)) or f"{claim.id}: nothing changed")
    accept(FILE, *claims)
