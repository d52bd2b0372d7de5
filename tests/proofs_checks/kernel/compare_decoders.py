"""Comparison of the verified decoders with checker.py: ``python compare_decoders.py PROGRAM
[CHECKER] [WITNESS ...]``.

Both decode random and mutated claims, arrays, datasets and pairs, and check mutated and published
witnesses. What one accepts, the other must accept with the same result, except for the parts of
checker.py that Decoding.v does not cover.
"""

import hashlib
import json
import random
import re
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from compare_with_proof import CHECKER, load

CASES, WITNESSES = 3000, 300
# reasons that the proof does not know
NOT_COVERED = ("bound: the counts prove more", "counts: the event guesses", "the test of so many")
PURE = {"claim": "pure:0.5", "claim_numbers": [0.5, 0.0]}
APPROX = {"claim": "approx:0.5,1e-3", "claim_numbers": [0.5, 0.001]}


def words(value):
    """Return a JSON value in the words of run_decoders.ml."""
    if value is None or isinstance(value, bool):
        return {None: "n", True: "t", False: "f"}[value]
    if isinstance(value, int):
        return f"i {value}"
    if isinstance(value, float):
        sign, digits, exponent = Decimal(repr(value)).as_tuple()
        return f"r {sign} {''.join(map(str, digits))} {exponent}"
    if isinstance(value, str):
        return "s " + hexadecimal(value)
    if isinstance(value, list):
        return " ".join([f"l {len(value)}", *map(words, value)])
    return " ".join(
        [
            f"o {len(value)}",
            *(hexadecimal(name) + " " + words(each) for name, each in value.items()),
        ]
    )


def hexadecimal(text):
    return "x" + text.encode().hex()


def cell(value):
    """Return an entry in the notation of run_decoders.ml."""
    if isinstance(value, str) or value != value or value in (float("inf"), -float("inf")):
        return str(value)
    if isinstance(value, int):
        return f"i{value}"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    digits, zeros = (
        (text := "".join(map(str, digits))).rstrip("0"),
        len(text) - len(text.rstrip("0")),
    )
    return "-" * sign + (f"{int(digits)}e{exponent + zeros}" if value else "0e0")


def row(text):
    return ",".join(map(cell, eval(text, {"inf": float("inf"), "nan": float("nan")})))


def record(key):
    if isinstance(key, tuple):
        return "(" + ",".join(f"[{row(part)}]" for part in key) + ")"
    value = eval(key, {"inf": float("inf"), "nan": float("nan")})
    return f"[{row(key)}]" if isinstance(value, list) else cell(value)


class Kernel:
    """The decoders of checker.py, with results in the notation of run_decoders.ml, and None for
    what they do not accept.
    """

    def __init__(self, path):
        self.checker, self.limits, self.bounds, self.tests = load(path), [], {}, []
        for name in ("frequency", "exp", "refutes"):
            setattr(self.checker, name, self.recorded(name, getattr(self.checker, name)))

    def recorded(self, name, function):
        def record_call(*args):
            result = function(*args)
            if name == "frequency":
                self.limits.append(result)
            elif name == "exp":
                self.bounds[args[0]] = result[1]
            return result

        def record_test(*args):
            self.tests.append(args)
            return function(*args)

        return record_test if name == "refutes" else record_call

    def result(self, function, *args):
        """Return the result, or None and the reason."""
        try:
            return function(*args), None
        except (self.checker.Refused, self.checker.NotChecked) as error:
            return None, str(error)

    def claim(self, text, numbers):
        if not self.checker.fits(numbers, self.checker.AUDIT["claim_numbers"]) or not re.match(
            "(pure|approx|gdp|zcdp):", text
        ):
            return None
        found, _ = self.result(self.checker.decode_claim, text, numbers)
        return found and [found[0], found[2], found[1][1] if len(found[1]) > 1 else 0]

    def array(self, value):
        found, _ = self.result(self.checker.decode_array, value)
        return found and [str(found[1][0]), *map(row, self.checker.rows(*found))]

    def dataset(self, value):
        found, _ = self.result(self.checker.decode_records, value)
        return found and [
            str(found[1]).lower(),
            *(f"{record(key)}*{copies}" for key, copies in found[0]),
        ]

    def pair(self, value):
        if not self.checker.fits(value, self.checker.AUDIT["pair"]):
            return None
        text, _ = self.result(self.checker.check_pair, value)
        return text and relation(text)

    def witness(self, value):
        """Return the statement, or None; the reason; and the numbers that a search found on the
        path to the answer.
        """
        self.limits, self.bounds, self.tests = [], {}, []
        sealed = {
            **value,
            "sha256": hashlib.sha256(self.checker.canonical(value).encode()).hexdigest(),
        }
        found, reason = self.result(self.checker.check, json.dumps(sealed))
        searched = [
            self.limits[-1] if self.limits else 0,
            len(self.bounds),
            *(x for pair in self.bounds.items() for x in pair),
        ]
        line = " ".join(["check", *map(str, searched), words(sealed)])
        if found and (
            value["pair"]["relation"][0] == "l"
            or value["counts"].get("stages")
            or value["claim"][:4] not in ("pure", "appr")
        ):
            return line, None, None
        if found:
            claim, low, _, alpha, *_ = self.tests[0]
            found = [
                claim[0],
                claim[2],
                claim[1][1],
                *relation(found[1][10:]),
                low,
                Fraction(repr(value["confidence"])),
                alpha,
            ]
        return line, found, reason


def relation(text):
    name, _, most = text.partition(":k=")
    return None if name not in ("replace-one", "add-remove") else [name, most or "1"]


def parsed(line):
    """Return the words of an answer, fractions as numbers."""
    return (
        None
        if line == "none"
        else [
            Fraction(word) if re.fullmatch("-?[0-9]+/[0-9]+", word) else word
            for word in line.split(" ")
        ]
    )


def decimal(rng):
    fraction = rng.choice(["", "", ".", ".5", ".25", ".0", ".1234567890123456789"])
    text = (
        rng.choice(["0", "1", "5", "12", "00", "", "3"])
        + fraction
        + rng.choice(["", "", "", "e-3", "e2", "E2", "e+1", "e", "e-400", "e400"])
    )
    return (
        text
        if rng.random() < 0.95
        else rng.choice(["-1", " 1", "1_0", "nan", "inf", "0x1", "1e-1.5", "٣"])
    )


def claims(rng):
    """Yield texts and numbers of claims, half of them with the numbers of the text."""
    for _ in range(CASES):
        kind = rng.choice(["pure", "approx", "gdp", "zcdp", "pure ", "approx:", "Pure", ""])
        numbers = [
            decimal(rng) if rng.random() < 0.3 else rng.choice(["1", "0.5", "2e-5", "1e-06"])
            for _ in range(rng.choice([1, 1, 2, 2, 3]))
        ]
        text = kind + rng.choice([":"] * 9 + [""]) + ",".join(numbers)
        stated = [
            float(n) if re.fullmatch("[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?", n) else 1.0
            for n in numbers
        ] + [0.0] * (kind == "pure")
        stated = [x if abs(x) < 1e300 else 1.0 for x in stated]
        if rng.random() < 0.3:
            stated[rng.randrange(len(stated))] = rng.choice(
                [1, 0, 0.5, -0.0, 5, 1e-05, None, "1", True]
            )
        yield text, stated


def array(rng, dtype=None, shape=None):
    dtype = dtype or rng.choice(["<f8", "<i8", "<f8", "<i8", "|b1"])
    shape = (
        [rng.choice([0, 1, 2, 3]) for _ in range(rng.choice([1, 2, 2, 3]))]
        if shape is None
        else shape
    )
    size = 1
    for axis in shape:
        size *= axis
    size = max(0, size + rng.choice([0] * 12 + [1, -1]))
    floats = [
        0.0,
        -0.0,
        0.0,
        1.5,
        1,
        10**22,
        0.1,
        1e-320,
        3,
        {"$type": "float", "value": rng.choice(["inf", "-inf", "nan", "0"])},
    ]
    entries = [
        rng.choice(
            [0, 1, 2, 3, 2]
            if dtype == "<i8"
            else floats
            if rng.random() < 0.2
            else [0.0, -0.0, 1.0]
        )
        for _ in range(size)
    ]
    if entries and rng.random() < 0.1:
        entries[rng.randrange(size)] = rng.choice(
            [None, True, "1", 2**63, -(2**63), 10**400, [1], -1, 2**60]
        )
    value = {"$type": "array", "dtype": dtype, "shape": shape, "value": entries}
    return mutated(rng, value) if rng.random() < 0.1 else value


def mutated(rng, value):
    """Return an object with one field removed, added or changed."""
    value, name = dict(value), rng.choice([*value, "other"])
    junk = rng.choice([None, True, 1, 0, "", "array", [], [1.5], [-1], {}, 2**70, -1, 1.0])
    return (
        {key: each for key, each in value.items() if key != name}
        if rng.random() < 0.4
        else {**value, name: junk}
    )


def dataset(rng, form):
    if form == "number":
        return rng.choice([0, 1, 1.0, -0.0, 0.0, 2.5])
    if form == "list":
        return [rng.choice([0, 1, 1.0]) for _ in range(rng.randrange(5))]
    if form == "texts":
        return [rng.choice(["a", "b", "c"]) for _ in range(rng.randrange(5))]
    if form == "lists":
        return [
            [rng.choice([0, 1]) for _ in range(rng.randrange(1, 3))]
            for _ in range(rng.randrange(4))
        ]
    if form == "array":
        return array(rng, rng.choice(["<f8", "<f8", "<i8"]), rng.choice([[4], [3, 1], [2, 2]]))
    if form == "junk":
        return rng.choice(
            [
                None,
                True,
                "a",
                {},
                [None],
                [1, "a"],
                [True],
                [[1], 1],
                [["a"]],
                {"$type": "object"},
                {"$type": "array"},
            ]
        )
    n, k = rng.choice([1, 2, 3]), rng.choice([1, 1, 2])
    fields = {
        "x": array(rng, "<f8", [n, k]),
        "y": array(rng, "<f8", [n]),
        "multiplicity": array(rng, "<i8", [n]),
    }
    if isinstance(fields["multiplicity"].get("value"), list) and rng.random() < 0.8:
        fields["multiplicity"]["value"] = [
            rng.choice([1, 1, 2, 5]) for _ in fields["multiplicity"]["value"]
        ]
    fields = mutated(rng, fields) if rng.random() < 0.05 else fields
    return {"$type": "object", "class": "dpwitness.mechanisms:LabelledVectors", "fields": fields}


FORMS = (
    "number",
    "list",
    "list",
    "texts",
    "lists",
    "array",
    "array",
    "junk",
    "vectors",
    "vectors",
    "vectors",
)


def pair(rng):
    form = rng.choice(FORMS)
    d0, d1 = dataset(rng, form), dataset(rng, form if rng.random() < 0.95 else rng.choice(FORMS))
    if rng.random() < 0.5:  # close to each other
        d1 = json.loads(json.dumps(d0))
        if isinstance(d1, list) and d1:
            d1[rng.randrange(len(d1))] = rng.choice(d1)
        inner = (
            d1.get("fields", {"x": d1}).get(rng.choice(["x", "multiplicity"]))
            if isinstance(d1, dict)
            else None
        )
        if isinstance(inner, dict) and isinstance(inner.get("value"), list) and inner["value"]:
            inner["value"][rng.randrange(len(inner["value"]))] = rng.choice([1, 2, 3])
    suffixes = ["", "", ":k=2", ":k=2", ":k=3", ":k=10", ":k=999999"] * 5 + [
        ":k=0",
        ":k=01",
        ":k=1234567",
        ":k=",
        "k=2",
    ]
    name = rng.choice(["replace-one", "add-remove"] * 9 + ["l1", "Replace"])
    value = {"d0": d0, "d1": d1, "relation": name + rng.choice(suffixes), "why": ""}
    return mutated(rng, value) if rng.random() < 0.05 else value


LOW_BITS = {"column": 0, "below": -40.0, "side": 1}


def witness(rng, checker):
    """Return a witness that is accepted, before its mutation."""
    claim, k = rng.choice([PURE, APPROX]), rng.choice([1, 2])
    counts = {
        "correct": rng.choice([900, 95, 999]),
        "wrong": rng.choice([1, 20, 100]),
        "rounds": 1200,
        "directions": k,
    }
    if rng.random() < 0.4:
        counts["lost"] = rng.choice([0, 1, 2])
    found = {
        **{
            "schema_version": 1,
            "kind": "black box",
            "name": "a",
            "level": rng.choice(["value", "bit"]),
            "target": None,
            **claim,
            "seed": 1,
        },
        "pair": {
            "d0": [0, 1],
            "d1": [0, 0],
            "relation": rng.choice(["replace-one", "add-remove:k=2"]),
            "why": "",
        },
        **{
            "bound": rng.choice([0.6, 1.0, 1, 0.75]),
            "confidence": rng.choice([0.9, 0.99, 0.999]),
            "description": "",
            "trials": 1,
        },
        "event": {
            "kind": "low bits",
            "rule": {"$type": "object", "class": "dpwitness.auditors:LowBits", "fields": LOW_BITS},
        },
        "counts": counts,
    }
    if rng.random() < 0.2:  # the bound that the counts prove
        counts["alpha"] = rng.choice([0.005, 1 - found["confidence"]])
        alpha = min(Fraction(repr(counts["alpha"])), 1 - Fraction(repr(found["confidence"])))
        low, high = 0.5, 12.0
        stage = {"lost": 0, "weight": 0, **counts}
        for _ in range(34):
            middle = (low + high) / 2
            decoded = checker.decode_claim(claim["claim"], claim["claim_numbers"])
            low, high = (
                (middle, high)
                if checker.refutes(decoded, Fraction(middle), [stage], alpha)
                else (low, middle)
            )
        found["bound"] = low
    return found


def mutated_witness(rng, value):
    """Change one field of a witness that the proof covers."""
    change, counts = rng.randrange(9), dict(value["counts"])
    if change == 0:
        return {
            **value,
            "claim": rng.choice(
                [
                    "pure:5",
                    "pure:1",
                    "approx:0.5,1",
                    "gdp:0.5",
                    "approx:0.5,1e-4",
                    "rdp:2,0.5",
                    "pure:0.5 ",
                ]
            ),
        }
    if change == 1:
        return {
            **value,
            "claim_numbers": rng.choice(
                [[0.5, 0], [0.5], [0.25, 0.0], [0.5, 0.001, 0.0], [], [0.5, 0.0]]
            ),
        }
    if change == 2:
        return {
            **value,
            "bound": rng.choice([0.5, 0.4, 1.5, 2.5, 8.0, 3000, "inf", None, -1, 0, 1e-9, 2, 2.0]),
        }
    if change == 3:
        return {
            **value,
            "confidence": rng.choice([0.0, 1.0, -1, 1, 0.5, 1e-300, 0.999999, "0.9", 1.5]),
        }
    if change == 4:
        counts[rng.choice(list(counts))] = rng.choice(
            [0, 1, 2, 3, -1, 950, 1300, 10**13, 0.5, None, True, 1e-5]
        )
        return {**value, "counts": counts}
    if change == 5:
        return {**value, "counts": mutated(rng, counts)}
    if change == 6:
        return {
            **value,
            "counts": {
                **counts,
                rng.choice(["stages", "tested", "lost", "alpha", "prior"]): rng.choice(
                    [[], 1, 0, 0.05, 1e-4, 3]
                ),
            },
        }
    if change == 7:
        return {**value, "pair": pair(rng)}
    return {
        **value,
        rng.choice(["level", "kind", "other"]): rng.choice(["value", "bits", "white box", 1]),
    }


def main(program, path=CHECKER, *witnesses):
    """Compare, print the numbers of cases and of differences, and return the exit code."""
    rng, kernel, lines, expected, reasons = random.Random(2), Kernel(path), [], [], []

    def add(line, answer, reason=None):
        lines.append(line)
        expected.append(answer)
        reasons.append(reason)

    for text, numbers in claims(rng):
        add(f"claim {hexadecimal(text)} {words(numbers)}", kernel.claim(text, numbers))
    for _ in range(CASES):
        add("array " + words(value := array(rng)), kernel.array(value))
        add("dataset " + words(value := dataset(rng, rng.choice(FORMS))), kernel.dataset(value))
        add("pair " + words(value := pair(rng)), kernel.pair(value))
    for i in range(WITNESSES):
        value = witness(rng, kernel.checker)
        add(*kernel.witness(mutated_witness(rng, value) if i % 4 else value))
    published = [json.loads(Path(each).read_text(encoding="utf-8")) for each in witnesses]
    for value in published:
        if "counts" in value:
            add(*kernel.witness({name: each for name, each in value.items() if name != "sha256"}))
    answers = subprocess.run(
        [program], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True
    ).stdout.split("\n")[:-1]
    accepted, wrong = {}, []
    for line, answer, reason, found in zip(
        lines, expected, reasons, map(parsed, answers), strict=True
    ):
        name, kinds = line.split(" ")[0], accepted.setdefault(line.split(" ")[0], [0, 0])
        kinds[0], kinds[1] = kinds[0] + 1, kinds[1] + (answer is not None)
        if answer != found and not (reason or "").startswith(NOT_COVERED):
            wrong.append(
                f"{name}: {line}\n    checker.py: {answer} {reason}\n    the proof: {found}"
            )
    numbers = ", ".join(f"{name} {each} ({yes} accepted)" for name, (each, yes) in accepted.items())
    print(f"decoders: {numbers}: {len(wrong)} differences")
    for each in wrong[:5]:
        print("different:", each)
    return int(bool(wrong) or not all(yes for _, yes in accepted.values()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
