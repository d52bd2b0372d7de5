"""Statements of claims, compared with their formulas: every number, relation and quantity that a statement prints needs an origin.

Origins, in this order: the formula's promise (privacy notion, bound), an equation of `LINKS` whose two sides have one value,
the same expression in the formula or the source, the ends of the domain, and a number that the check's code contains.
"""

from __future__ import annotations

import ast
import re

from flint import ctx

from dpwitness.proofs_checks.engine.declaration import Declaration
from dpwitness.proofs_checks.engine.formulas import BITS, DEFINED, NEAR, Unreadable, attempt, evaluate, parse, symbols
from dpwitness.proofs_checks.engine.ledger import declarations
from dpwitness.proofs_checks.engine.mutation import places
from dpwitness.proofs_checks.engine.readings import LINKS

_BOUND = re.compile(r"(at most|at least|bounded by(?! B\b)|no larger than) ([^,;]+)")
_NESTED = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))+?"
_PRIVATE = re.compile(rf"(?:([\w'/]+)|\(({_NESTED})(?:, ([\w']+))?\))-DP")
_SOME = re.compile(r"the (?:theorem|paper) says (\w+) = ([\d.]+)")
_REFERENCE = re.compile(r"(?:Algorithm|Theorem|Lemma|Corollary|[Ee]quation|figure|form|minimiser of) \(?\d+\)?|\bW\d+")
_ENGLISH = re.compile(r"\b(?:in|sum|for|to|so|of|on|if|is)\b")
_RELATIONS = {  # words of a statement, and what the formula has for them
    r"falls at least like": "= O(",
    r"at least once": ">= 1",
    r"at most|bounded by|no larger than|no more than|never draws more than": "<=",
}
_TOKEN = re.compile(r"(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)|(?P<name>[A-Za-z]\w*'?\*?)|(?P<sign><=|>=|=>|[-+*/^<>=|.,:;()\[\]{}])")
_NAMES = re.compile(
    r"(?:epsilon|delta|lambda|Lambda|alpha|beta|gamma|rho|sigma|tau|zeta|kappa|nu|mu|theta|exp|log|sqrt|tanh|fhat|grad|phi|what|surplus|eps"
    r"|[b-zB-HJ-Z]|[a-zA-Z]\d)(?:_\w+)?'?\*?|e\d|n0|[A-Z]_?\d"
)
_GREEK = re.compile(r"(?:epsilon|delta|lambda|Lambda|alpha|beta|gamma|rho|sigma|tau|zeta|kappa|nu|mu|log|sqrt|exp)(?:_\w+)?'?")
_OWN, _LONG = 3, 7  # texts of the entry itself; tokens of an expression that may be printed by an entry's kin only
_SMALL = (0.0, 1.0, 2.0)  # numbers that any code contains


def statement_problem(declared: Declaration) -> str:
    """Return why a statement does not fit its formula; an empty text where it does.

    Raises Unreadable where a number, a relation or a quantity of the statement has no origin, or where the statement has none of these.
    """
    words, accounted = declared.statement, 0
    for phrase, meaning in sorted(LINKS.get(declared.id, {}).items(), key=lambda item: -len(item[0])):
        if phrase not in words:
            raise Unreadable(f"{phrase} is missing")
        if problem := _link_problem(declared, phrase, meaning):
            return problem
        words, accounted = words.replace(phrase, " ; "), accounted + 1
    for name, value in _SOME.findall(words):
        if declared.domain[name][0] != float(value):
            return f"{name} = {value} is not the end of the domain, {declared.domain[name][0]:g}"
    words = _SOME.sub(" ; ", words)
    for promised in _PRIVATE.finditer(words):
        if problem := _promise_problem(declared, promised):
            return problem
        words, accounted = words.replace(promised[0], " ; ", 1), accounted + 1
    right, bound = _right(declared.formula), _BOUND.search(words)
    if bound is not None and right:
        told, problem = _bound_problem(declared, bound[2], right)
        if problem or bound[1] == "at least":
            return problem or f'"{bound[1]}" is not "<="'
        if told:
            words, accounted = words.replace(f"{bound[1]} {told}", " ; ", 1), accounted + 1
    for pattern, sign in _RELATIONS.items():
        if sign in declared.formula:
            words, count = re.subn(rf"\b(?:{pattern})\b", " ; ", words)
            accounted += count
    accounted += _leftover(words, declared)
    if not accounted:
        raise Unreadable("words alone")
    return ""


def _right(formula: str) -> str:
    head = re.split(r", (?=[A-Za-z_]\w* = )", formula)[0]
    return re.split(r" for | at |, ", head.rpartition(" <= ")[2])[0] if " <= " in head else ""


def _promise_problem(declared: Declaration, promised: re.Match[str]) -> str:
    """A promise of epsilon, or of epsilon and delta, must be made of what the formula bounds or the check takes."""
    single, pair, delta = promised.groups()
    epsilon, formula = single or pair, declared.formula
    known = {text for kind, text in _tokens(formula) if kind == "name"} | set(declared.domain)
    named = epsilon == _right(formula) or any(form in formula for form in (f"exp({epsilon})", f"e^{epsilon}"))
    named = named or (epsilon in known and epsilon.startswith("epsilon")) or ("epsilon" in epsilon and _within(epsilon, formula))
    if not named and epsilon == "epsilon":
        named = delta is None and not any(name.startswith("epsilon") for name in known)  # it cancels
    deltas = {name for name in known if name.startswith("delta")}
    if epsilon.startswith("delta") or not named or (delta is None) == bool(deltas) or (delta is not None and delta not in deltas):
        return f"{promised[0]} is not what the formula bounds"
    return ""


def _bound_problem(declared: Declaration, told: str, right: str) -> tuple[str, str]:
    """The expression that a statement's bound begins with, and how its value differs from the formula's right side."""
    terms = told.split(" ")
    for count in range(len(terms), 0, -1):
        text = " ".join(terms[:count])
        tree, other = attempt(text), attempt(right)
        if tree is None or other is None or _ENGLISH.search(text):
            continue
        definitions = {name: attempt(value) for name, value in DEFINED.findall(declared.statement)}
        known = {name: found for name, found in definitions.items() if found is not None}
        try:
            with ctx.workprec(BITS):
                values = [float(evaluate(side, dict(used))) for used in ({}, known) for side in (tree, other)]
        except Unreadable:
            continue
        if any(one == two or abs(one - two) <= NEAR * abs(two) for one, two in (values[:2], values[2:])):
            return text, ""
        if _within(text, declared.formula):
            return "", ""
        return text, f"the statement's bound is {values[2] / values[3]:.4g} times the formula's"
    return "", ""


def _link_problem(declared: Declaration, phrase: str, meaning: str) -> str:
    """A link's right side must be printed beside the statement; if it is an equation in X, the value X of the phrase must solve it."""
    left, _, printed = meaning.rpartition(" == ")
    if not any(_within(printed, text) if left else printed in text for text in _beside(declared)):
        return f'"{phrase}" means "{printed}", which the entry does not print'
    if not left:
        return ""
    free = {name: parse(f"0.{k}3") for k, name in enumerate(declared.domain, 2)}
    known = {**free, **symbols(declared), "X": parse(phrase)}
    with ctx.workprec(BITS):
        one, two = (float(evaluate(parse(side), dict(known))) for side in (left, printed))
    return "" if abs(one - two) <= NEAR * abs(two) else f"with X = {phrase}, {left} is {one / two:.4g} times {printed}"


# -- what is left over -------------------------------------------------------------------------------------------------


def _tokens(text: str) -> list[tuple[str, str]]:
    return [(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(text)]


def _within(run: str, text: str) -> bool:
    """Whether the tokens of an expression follow each other in a text, without a further factor before or a power after them."""
    part, all_ = _tokens(run), _tokens(text)
    for start in range(len(all_) - len(part) + 1):
        before, after = all_[max(0, start - 2) : start], all_[start + len(part) :][:1]
        factor = bool(before) and before[-1][0] == "number" and before[0][1] != "^"
        if all_[start : start + len(part)] == part and not factor and after != [("sign", "^")]:
            return True
    return False


def _leftover(words: str, declared: Declaration) -> int:
    """The number of expressions that are left and have an origin. Raises Unreadable for one that has none."""
    if word := re.search(r"\bat (?:most|least)\b", words):
        raise Unreadable(word[0])
    count = 0
    for reference in _REFERENCE.findall(words):
        number = reference.split(" ")[-1]
        forms = [reference] if number.isdigit() else [reference, number]
        if not declared.id.endswith(f"-{number}") and not any(_within(form, text) for form in forms for text in _beside(declared)):
            raise Unreadable(reference)
        count += 1
    for run in _runs(_REFERENCE.sub(" ; ", words).replace("N(0, ", " ; ")):
        tokens = _tokens(run)
        bears = any(kind == "number" or (kind == "name" and _GREEK.fullmatch(text)) or text in ("<=", ">=", "=") for kind, text in tokens)
        if not bears:
            continue
        if not _has_origin(run, tokens, declared):
            raise Unreadable(run)
        count += 1
    return count


def _runs(words: str) -> list[str]:
    """Maximal pieces of a statement that are made of numbers, signs and symbols."""
    words = re.sub(r"(?<=[a-z])'s\b|(?<=[A-Za-z])-(?=[A-Za-z])", " ; ", words)
    words = re.sub(r"[A-Za-z]\w*'?\*?", lambda found: found[0] if _NAMES.fullmatch(found[0]) else ";", words)
    texts = []
    for piece in re.split(r"[;:|~]|[,.](?= |$)", words):
        text = _trimmed(piece)
        while text.count("(") != text.count(")") and (text[0] in "()" or text[-1] in "()"):
            text = _trimmed(text[1:] if text[0] in "()" else text[:-1])
        if text:
            texts.append(text)
    return texts


def _trimmed(text: str) -> str:
    """A piece without the signs at its ends that connect it with words; relations other than "=" are kept."""
    return re.sub(r"^(?:[ ,.;:+*/=-])+|(?:(?<![<>])=|[ ,.;:+*/-])+$", "", text)


def _has_origin(run: str, tokens: list[tuple[str, str]], declared: Declaration) -> bool:
    if run in declared.domain or run.replace(" ", "_") in declared.domain:
        return True
    long = len(tokens) >= _LONG or not any(kind == "number" for kind, _ in tokens)
    if any(_within(run, text) for text in _beside(declared)[: None if long else _OWN]):
        return True
    if any(kind == "name" for kind, _ in tokens) or (tree := attempt(run)) is None:
        return False
    value = float(evaluate(tree, {}))
    return value not in _SMALL and value in _literals(declared)


def _beside(declared: Declaration) -> list[str]:
    """The texts that an entry prints beside its statement, and all texts of its kin: entries of the same number, and those that it uses."""
    kin = {declared.repairs, *declared.depends}
    others = [it for id, it in declarations().items() if id != declared.id and (id in kin or _number(id) == _number(declared.id))]
    texts = [declared.formula, declared.source, declared.proof]
    return texts + [text for it in others for text in (it.statement, it.formula, it.source, it.proof)]


def _number(id: str) -> str:
    return "-".join(id.split("-")[:2])


def _literals(declared: Declaration) -> frozenset[float]:
    """The numbers that a check's code contains."""
    found = set()
    for place in places(declared):
        for node in ast.walk(place.tree):
            if isinstance(node, ast.Constant) and not isinstance(node.value, bool):
                try:
                    found.add(float(str(node.value)))
                except ValueError:
                    continue
    return frozenset(found)
