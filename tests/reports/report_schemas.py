"""Validators of SARIF and JUnit files, from the published schemas."""

import json
from pathlib import Path

import jsonschema
import xmlschema

_FOLDER = Path(__file__).parent / "schemas"
SARIF = jsonschema.Draft4Validator(json.loads((_FOLDER / "sarif-2.1.0-rtm.5.json").read_text()))
JUNIT = xmlschema.XMLSchema(_FOLDER / "junit-10.xsd")
