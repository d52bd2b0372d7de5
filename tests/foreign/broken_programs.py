"""Programs that break the protocol in one way each, made from one that keeps it, and programs that
print their outputs.
"""

import json
import sys
from pathlib import Path

import numpy as np

from dpwitness import Pair, Target, mechanisms

SHIMS = Path(mechanisms.__path__[0]) / "wrappers" / "programs" / "shims"
VECTORS = json.loads((SHIMS / "vectors.json").read_text())
TOOLS = {  # the compiler or interpreter of each language
    "cpp": "g++",
    "rust": "rustc",
    "go": "go",
    "java": "javac",
    "javascript": "node",
    "r": "Rscript",
}
NEAR = Pair(np.array([0.0]), np.array([1.0]))
PYTHON = [sys.executable, "-I", "-S"]
ALONE = {"claim": "pure:1", "pair": NEAR, "confidence": 1 - 1e-7}
NORMAL = (
    "import random, os; g = random.Random(os.environ['DPWITNESS_SEED']); n = "
    "int(os.environ['DPWITNESS_SIZE']); "
)
WRONG = (
    "_draw = draw\ndef draw(v, n, s): return [sum(v) + (x - sum(v)) / 2 for x in _draw(v, n, s)]"
)

GOOD = """
import json, math, os, random, struct, sys, time
OUT, IN = sys.stdout.buffer, sys.stdin.buffer
HELLO = {
    "protocol": 1, "name": "specimen", "version": "1", "seedable": True, "datasets": ["float64", "json"], "outputs": ["float64", "json"],
    "claim": "pure:1", "domain": {"kind": "Records", "size": 1, "low": 0.0, "high": 1.0},
}
data, served = {}, []

def write(block):
    OUT.write(block)
    OUT.flush()

def say(message):
    write(json.dumps(message).encode() + b"\\n")

def hello():
    say(HELLO)

def draw(values, size, seed):
    rng = random.Random(repr(seed))
    return [sum(values) + rng.expovariate(1.0) - rng.expovariate(1.0) for _ in range(size)]

def pack(values):
    return struct.pack("<%dd" % len(values), *values)

def answer(values, size, seed):
    out = draw(values, size, seed)
    say({"kind": "float64", "rows": len(out), "columns": 1})
    write(pack(out))

def keep(number, values):
    data[number] = values

def known(asked):
    if asked.get("op") != "run":
        return "no such operation"
    if asked["size"] < 1:
        return "size must be at least 1"
    return "" if asked["dataset"] in data else "no such dataset"

def line():
    return IN.readline()

def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return {}

def last():
    pass

#BREAK

def main():
    hello()
    while text := line():
        asked = parsed(text)
        if asked.get("op") == "dataset":
            if asked["encoding"] == "float64":
                count = math.prod(asked["shape"])
                keep(asked["dataset"], struct.unpack("<%dd" % count, IN.read(8 * count)))
            else:
                value = asked["value"]
                finite = isinstance(value, list) and [float(v) if v in ("NaN", "Infinity", "-Infinity") else v for v in value]
                keep(asked["dataset"], finite or value)
            continue
        why = known(asked)
        if why:
            say({"failed": why})
            continue
        served.append(asked)
        answer(data[asked["dataset"]], asked["size"], asked["seed"])
    last()

main()
"""

_DRAWN = """
def answer(values, size, seed):
    out = draw(values, size, seed)
    {}
"""
_HEAD = 'say({"kind": "float64", "rows": len(out), "columns": 1})'
_RUN = "answers a run"
_HELLO = "says hello"
_LITTLE = "numbers are little-endian"
_SAME = "same seed, same answer"
_OTHER_SEED = "other seed, other answer"
_AFTER = "same answer after other requests"
_FRESH = "same answer in a fresh process"
_OTHER_DATA = "other data, other answer"
_ODD_DATA = "no records, NaN and infinities"
_JSON = "a dataset in JSON"
_AHEAD = "requests ahead of answers"
_NO_SIZE = "says failed: a size of 0"
_END = "ends with its input"


def _answer(*lines):
    return _DRAWN.format("\n    ".join(lines))


def _draw(line):
    return f"usual = draw\ndef draw(values, size, seed):\n    {line}\n"


_THROWS = """
import select
HELLO["datasets"] = ["json"]
def line():
    text = bytearray()
    while text[-1:] != b"\\n" and (more := os.read(0, 1)):
        text += more
    while b"run" in text and select.select([0], [], [], 0)[0] and os.read(0, 2**16):
        pass
    return text
"""


_REVERSE = """
HELLO["datasets"] = ["json"]
waiting = []
def line():
    if not waiting:
        text = b""
        while text[-1:] != b"\\n" and (more := os.read(0, 2**16)):
            text += more
        found = text.splitlines(keepends=True)
        waiting.extend(sorted(reversed(found), key=lambda each: b'"encoding"' not in each))
    return waiting.pop(0) if waiting else b""
"""


# name: (what is put in, the step that must see it, what it must say)
BROKEN = {
    "no hello": ("def hello(): pass", _HELLO, "hello was due"),
    "no flush": ("def write(block): OUT.write(block)", _HELLO, "hello was due"),
    "early exit": ("sys.exit(3)", _HELLO, "ended with exit code 3"),
    "hello is no JSON": (
        "def hello(): print('ready', flush=True)",
        _HELLO,
        "wrote 'ready' where hello was due",
    ),
    "hello in JSON that is no object": (
        "def hello(): say([1])",
        _HELLO,
        "where hello was due, a JSON object",
    ),
    "huge line": ("HELLO['name'] = 'x' * 10**6", _HELLO, "at most 65536 bytes"),
    "wrong version": ("HELLO['protocol'] = 2", _HELLO, "speaks protocol 2, this dpwitness 1"),
    "nothing on seeds": ("del HELLO['seedable']", _HELLO, "hello has no seedable"),
    "seedable is a text": (
        "HELLO['seedable'] = 'yes'",
        _HELLO,
        "seedable must be true or false, got 'yes'",
    ),
    "an encoding of its own": (
        "HELLO['datasets'] = ['csv']",
        _HELLO,
        "datasets must be a list of some of json, float64",
    ),
    "a key of its own": (
        "HELLO['epsilon'] = 1",
        _HELLO,
        "unknown key 'epsilon'; known keys are protocol, name",
    ),
    "a greeting": (
        "def hello(): say(HELLO); print('welcome', flush=True)",
        _HELLO,
        "without a request: 'welcome",
    ),
    "claim that is none": ("HELLO['claim'] = 'private'", "claim and domain", "claim must"),
    "domain that is none": (
        "HELLO['domain'] = {'kind': 'Table3'}",
        "claim and domain",
        "domain kind must be one of",
    ),
    "dies when asked": (_answer("os._exit(9)"), _RUN, "ended with exit code 9 (an answer was due)"),
    "is killed": (_answer("os.kill(os.getpid(), 11)"), _RUN, "SIGSEGV"),
    "hang": (
        _answer("time.sleep(60)"),
        _RUN,
        "took longer than time_limit = 1 s (an answer was due)",
    ),
    "wrong count": (
        _answer("out = out[1:]", _HEAD, "write(pack(out))"),
        _RUN,
        "answered 999 rows for size = 1000",
    ),
    "count as a text": (
        _answer("say({'kind': 'json', 'rows': str(size)})"),
        _RUN,
        "answered '1000' rows",
    ),
    "no columns": (
        _answer("say({'kind': 'float64', 'rows': size})"),
        _RUN,
        "columns must be a whole number",
    ),
    "a kind of its own": (
        _answer("say({'kind': 'float32', 'rows': size, 'columns': 1})"),
        _RUN,
        "kind 'float32', hello names float64, json",
    ),
    "a kind that hello leaves out": (
        _answer("say({'kind': 'int64', 'rows': size, 'columns': 1})"),
        _RUN,
        "kind 'int64', hello names",
    ),
    "answer is no JSON": (_answer("print(out, flush=True)"), _RUN, "where an answer was due"),
    "extra output before": (
        "_say = say\ndef say(m):\n    'kind' in m and write(b'debug\\n'); _say(m)",
        _RUN,
        "wrote 'debug' where an answer was due",
    ),
    "extra output behind": (
        _answer(_HEAD, "write(pack(out) + b'done\\n')"),
        _RUN,
        "without a request: 'done",
    ),
    "short block": (
        _answer(_HEAD, "write(pack(out[1:]))"),
        _RUN,
        "7992 of 8000 bytes of a block were there",
    ),
    "floats of 32 bits": (
        _answer(_HEAD, "write(struct.pack('<%df' % size, *out))"),
        _RUN,
        "4000 of 8000 bytes",
    ),
    "long block": (_answer(_HEAD, "write(pack(out + out[:1]))"), _RUN, "without a request"),
    "answers twice": (
        _answer("for _ in range(2):", f"    {_HEAD}; write(pack(out))"),
        _RUN,
        "without a request",
    ),
    "raises on its own data": (
        _answer("say({'raised': 'KeyError', 'text': 'x'})"),
        _RUN,
        "raised KeyError: x on its own",
    ),
    "raises nothing": (
        _answer("say({'raised': ''})"),
        _RUN,
        "raised must be the name of an exception",
    ),
    "NaN that is no JSON": (
        _answer("say({'kind': 'json', 'rows': size})", "write(b'nan\\n' * size)"),
        _RUN,
        "output 1 must be a line of JSON, got 'nan'",
    ),
    "huge output": (
        _answer("say({'kind': 'json', 'rows': size})", "write(b'1' * (2**24 + 9))"),
        _RUN,
        "at most 16777216 bytes",
    ),
    "fails at size 1": (
        _answer("if size == 1: os._exit(4)", _HEAD, "write(pack(out))"),
        "sizes 1, 2 and 65536",
        "exit code 4",
    ),
    "big-endian": (
        "def pack(values): return struct.pack('>%dd' % len(values), *values)",
        _LITTLE,
        "look like big-endian float64",
    ),
    "integers as floats": (
        "def pack(values): return struct.pack('<%dq' % len(values), *(round(9 * v) for v in "
        "values))",
        _LITTLE,
        "look like int64",
    ),
    "draws afresh": (
        _draw("return usual(values, size, time.time())"),
        _SAME,
        "one seed gave two answers",
    ),
    "ignores the seed": (
        _draw("return usual(values, size, 1)"),
        _OTHER_SEED,
        "the seed is ignored",
    ),
    "keeps state": (
        _draw("return usual(values, size, [seed, sum(s['size'] == 7 for s in served)])"),
        _AFTER,
        "state is kept",
    ),
    "seeded by its process": (
        _draw("return usual(values, size, [seed, os.getpid()])"),
        _FRESH,
        "in a fresh process",
    ),
    "crash on a second dataset": (
        "def keep(number, values):\n    data and os._exit(5); data.update({number: values})",
        _AFTER,
        "exit code 5",
    ),
    "mixes datasets up": (
        "def keep(number, values): data.update(dict.fromkeys([*data, number], values))",
        _AFTER,
        "state is kept",
    ),
    "keeps the first of a number": (
        "def keep(number, values): data.setdefault(number, values)",
        "a dataset in place of another",
        "did not replace the old one",
    ),
    "a buffer that is too small": (
        "def keep(number, values):\n    len(values) > 2**16 and os._exit(6); "
        "data.update({number: values})",
        "a dataset of 100,000 rows",
        "exit code 6",
    ),
    "NaN among the data": (
        _draw("return [v + int(sum(values)) * 0 for v in usual(values, size, seed)]"),
        _ODD_DATA,
        "cannot convert float NaN",
    ),
    "no record": (
        _draw("return [v + 0 * values[0] for v in usual(values, size, seed)]"),
        _ODD_DATA,
        "tuple index out of range",
    ),
    "throws away what was sent ahead": (_THROWS, _AHEAD, "an answer was due"),
    "size 0": (
        "_known = known\ndef known(asked): return '' if asked.get('size') == 0 else _known(asked)",
        _NO_SIZE,
        "the answer must be failed",
    ),
    "negative size": (
        "_known = known\ndef known(asked): return '' if asked.get('size') == -1 else _known(asked)",
        "says failed: a size of -1",
        "the answer must be failed",
    ),
    "unknown dataset": (
        "_known = known\ndef known(asked): return '' if asked.get('dataset') == 7 else "
        "_known(asked)",
        "says failed: a dataset that was never sent",
        "KeyError: 7",
    ),
    "unknown operation": (
        "_known = known\ndef known(asked): return _known(dict(asked, op='run'))",
        "says failed: an unknown operation",
        "the answer must be failed",
    ),
    "dies of a line": (
        "parsed = json.loads",
        "says failed: a line that is not valid JSON",
        "JSONDecodeError",
    ),
    "raises for failed": (
        "_say = say\ndef say(m): _say({'raised': 'ValueError'} if m.get('failed', '')[:4] == "
        "'size' else m)",
        _NO_SIZE,
        "the answer must be failed",
    ),
    "a mark of byte order": (
        "def hello(): write(b'\\xef\\xbb\\xbf'); say(HELLO)",
        _HELLO,
        "where hello was due",
    ),
    "a name of two lines": (
        "HELLO['name'] = 'a\\nb'",
        _HELLO,
        "name must be a text of 1 to 200 characters in a line",
    ),
    "count as a float": (
        _answer("say({'kind': 'float64', 'rows': float(size), 'columns': 1})"),
        _RUN,
        "answered 1000.0 rows",
    ),
    "kind without end": (
        _answer("say({'kind': 'x' * 60000, 'rows': size})"),
        _RUN,
        "xx, hello names float64, json",
    ),
    "fails in two lines": (
        _answer("say({'failed': 'one\\n\\x1b[31mtwo'})"),
        _RUN,
        "one \\x1b[31mtwo",
    ),
    "seeds of 31 bits": (
        _draw("return usual(values, size, seed) if max(seed) < 2**31 else 1 / 0"),
        _OTHER_SEED,
        "division by",
    ),
    "one word of the seed": (
        _draw("return usual(values, size, seed[0])"),
        _OTHER_SEED,
        "1 of the four words",
    ),
    "one run copied": (
        _draw("return usual(values, 1, seed) * size"),
        _OTHER_SEED,
        "runs must be independent",
    ),
    "nobody seeds it": (
        "HELLO['seedable'] = False\n_g = random.Random(1)\ndef draw(v, n, s): return [sum(v) "
        "+ _g.gauss(0, 1) for _ in range(n)]",
        _FRESH,
        "each process must use a new seed",
    ),
    "ignores its data": (_draw("return usual([0.5], size, seed)"), _OTHER_DATA, "are they read?"),
    "nothing but NaN": (_draw("return [math.nan] * size"), _OTHER_DATA, "are they read?"),
    "reads no JSON": (
        "_parsed = parsed\ndef parsed(t): return {} if b'json' in t else _parsed(t)",
        _JSON,
        "the program says",
    ),
    "room for two datasets": (
        "def keep(number, values): data.update({number: values}) if number == 15 or number < "
        "2 else os._exit(8)",
        _JSON,
        "exit code 8",
    ),
    "last come, first served": (_REVERSE, _AHEAD, "answered 64 rows for size = 1"),
    "floods standard error": (
        _answer("sys.stderr.write('x' * 2**20)", _HEAD, "write(pack(out))"),
        "standard error",
        "bytes to standard error",
    ),
    "exit code after good answers": ("def last(): sys.exit(3)", _END, "exit code 3"),
    "goes on without input": ("def last(): time.sleep(60)", _END, "still runs"),
    "a farewell": ("def last(): print('bye')", _END, "wrote b'bye"),
}


def broken(name):
    """Its text."""
    return GOOD.replace("#BREAK", BROKEN[name][0])


def rng(seed=1):
    return np.random.default_rng(seed)


def text(code, *arguments, runs="batch"):
    """Return a target that prints its outputs."""
    return Target(command=[*PYTHON, "-c", code, *arguments], text=runs)
