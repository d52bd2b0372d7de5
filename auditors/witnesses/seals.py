"""Hash of the content of a witness, which reveals later edits."""

from __future__ import annotations

import hashlib
import json

from dpwitness.core.values.json_reader import Json, require_json_limits
from dpwitness.core.values.validation import InvalidArgument


def fingerprint(witness: Json) -> str:
    """Return the SHA-256 of all fields but the hash, as JSON with sorted names and
    without spaces.
    """
    content = {key: value for key, value in witness.items() if key != "sha256"}
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    ).hexdigest()


def seal(witness: Json) -> Json:
    """Return the witness with the hash of its content, which reveals later edits.

    Raises InvalidArgument for content that the reader would refuse.
    """
    require_json_limits(witness)
    return {**witness, "sha256": fingerprint(witness)}


def check_seal(data: Json, name: str) -> tuple[str, ...]:
    """Return a note if the witness has no hash.

    Raises InvalidArgument if the hash is not the hash of the content.
    """
    if "sha256" not in data:
        return ("the witness has no hash of its content, so edits cannot be detected",)
    if data["sha256"] != fingerprint(data):
        raise InvalidArgument(
            f"replay: {name}: sha256 is not that of the content: the witness was edited or "
            "damaged; remove this field to read the witness without the check"
        )
    return ()
