"""Comparison of the claims' statements with their formulas: every number, relation and quantity in
a statement needs an origin.

Origins, in this order: the formula's promise (privacy notion, bound), an equation of `LINKS` whose
two sides have the same value, the same expression in the formula or the source, an endpoint of the
domain, and a number in the check's code.
"""

from __future__ import annotations

import ast
import re

from flint import ctx
from printed_formulas import BITS, DEFINED, NEAR, Unreadable, attempt, evaluate, parse, symbols
from printed_readings import LINKS

from dpwitness.benchmarks.proofs.review.reviewed_texts import places
from dpwitness.proofs_checks.engine.finding import Declaration
from dpwitness.proofs_checks.engine.ledger import declarations

_BOUND_PHRASE = re.compile(r"(at most|at least|bounded by(?! B\b)|no larger than) ([^,;]+)")
_NESTED_PARENTHESES = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))+?"
_PRIVACY_PHRASE = re.compile(rf"(?:([\w'/]+)|\(({_NESTED_PARENTHESES})(?:, ([\w']+))?\))-DP")
_STATED_PARAMETER = re.compile(r"the (?:theorem|paper) says (\w+) = ([\d.]+)")
_REFERENCE = re.compile(
    r"(?:Algorithm|Theorem|Lemma|Corollary|[Ee]quation|figure|form|minimiser of) \(?\d+\)?|\bW\d+"
)
_ENGLISH_WORDS = re.compile(r"\b(?:in|sum|for|to|so|of|on|if|is)\b")
_RELATION_PHRASES = {  # words of a statement -> sign in the formula
    r"falls at least like": "= O(",
    r"at least once": ">= 1",
    r"at most|bounded by|no larger than|no more than|never draws more than": "<=",
}
_TOKEN = re.compile(
    r"(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)|(?P<name>[A-Za-z]\w*'?\*?)|(?P<sign><=|>=|=>|[-+*/^<>=|.,:;()\[\]{}])"
)
_SYMBOL = re.compile(
    r"(?:epsilon|delta|lambda|Lambda|alpha|beta|gamma|rho|sigma|tau|zeta|kappa|nu|mu|theta|exp|log|sqrt|tanh|fhat|grad|phi|what|surplus|eps"
    r"|[b-zB-HJ-Z]|[a-zA-Z]\d)(?:_\w+)?'?\*?|e\d|n0|[A-Z]_?\d"
)
_NAMED_SYMBOL = re.compile(
    r"(?:epsilon|delta|lambda|Lambda|alpha|beta|gamma|rho|sigma|tau|zeta|kappa|nu|mu|log|sqrt|exp)(?:_\w+)?'?"
)
# number of the entry's texts; number of tokens from which a related entry's text is enough as an
# origin
_OWN_TEXTS, _LONG_RUN = 3, 7
_COMMON_NUMBERS = (0.0, 1.0, 2.0)  # numbers that occur in all code and so prove no origin


def statement_problem(declared: Declaration) -> str:
    """Return how a statement contradicts its formula; an empty text if they agree.

    Raises
    ------
    Unreadable
        If a number, relation or quantity of the statement has no origin, or if the statement
        contains none of these.
    """
    words, accounted = declared.statement, 0
    for phrase, meaning in sorted(
        LINKS.get(declared.id, {}).items(), key=lambda item: -len(item[0])
    ):
        if phrase not in words:
            raise Unreadable(f"{phrase} is missing")
        if problem := _link_problem(declared, phrase, meaning):
            return problem
        words, accounted = words.replace(phrase, " ; "), accounted + 1
    for name, value in _STATED_PARAMETER.findall(words):
        if declared.domain[name][0] != float(value):
            return f"{name} = {value} is not the end of the domain, {declared.domain[name][0]:g}"
    words = _STATED_PARAMETER.sub(" ; ", words)
    for promised in _PRIVACY_PHRASE.finditer(words):
        if problem := _promise_problem(declared, promised):
            return problem
        words, accounted = words.replace(promised[0], " ; ", 1), accounted + 1
    right, bound = _right_side(declared.formula), _BOUND_PHRASE.search(words)
    if bound is not None and right:
        bound_text, problem = _bound_problem(declared, bound[2], right)
        if problem or bound[1] == "at least":
            return problem or f'"{bound[1]}" is not "<="'
        if bound_text:
            words, accounted = words.replace(f"{bound[1]} {bound_text}", " ; ", 1), accounted + 1
    for pattern, sign in _RELATION_PHRASES.items():
        if sign in declared.formula:
            words, count = re.subn(rf"\b(?:{pattern})\b", " ; ", words)
            accounted += count
    accounted += _count_remaining(words, declared)
    if not accounted:
        raise Unreadable("words alone")
    return ""


def _right_side(formula: str) -> str:
    head = re.split(r", (?=[A-Za-z_]\w* = )", formula)[0]
    return re.split(r" for | at |, ", head.rpartition(" <= ")[2])[0] if " <= " in head else ""


def _promise_problem(declared: Declaration, promised: re.Match[str]) -> str:
    """Return a problem if the epsilon or delta of a privacy promise is neither in the formula nor a
    parameter of the check.
    """
    single, pair, delta = promised.groups()
    epsilon, formula = single or pair, declared.formula
    known = {text for kind, text in _tokens(formula) if kind == "name"} | set(declared.domain)
    named = epsilon == _right_side(formula) or any(
        form in formula for form in (f"exp({epsilon})", f"e^{epsilon}")
    )
    named = (
        named
        or (epsilon in known and epsilon.startswith("epsilon"))
        or ("epsilon" in epsilon and _occurs_in(epsilon, formula))
    )
    if not named and epsilon == "epsilon":
        # epsilon cancels in the formula
        named = delta is None and not any(name.startswith("epsilon") for name in known)
    deltas = {name for name in known if name.startswith("delta")}
    if (
        epsilon.startswith("delta")
        or not named
        or (delta is None) == bool(deltas)
        or (delta is not None and delta not in deltas)
    ):
        return f"{promised[0]} is not what the formula bounds"
    return ""


def _bound_problem(declared: Declaration, bound_text: str, right: str) -> tuple[str, str]:
    """Return the expression at the start of a statement's bound, and how its value differs from the
    formula's right side.
    """
    terms = bound_text.split(" ")
    for count in range(len(terms), 0, -1):
        text = " ".join(terms[:count])
        tree, other = attempt(text), attempt(right)
        if tree is None or other is None or _ENGLISH_WORDS.search(text):
            continue
        definitions = {name: attempt(value) for name, value in DEFINED.findall(declared.statement)}
        known = {name: found for name, found in definitions.items() if found is not None}
        try:
            with ctx.workprec(BITS):
                values = [
                    float(evaluate(side, dict(used)))
                    for used in ({}, known)
                    for side in (tree, other)
                ]
        except Unreadable:
            continue
        if any(
            one == two or abs(one - two) <= NEAR * abs(two) for one, two in (values[:2], values[2:])
        ):
            return text, ""
        if _occurs_in(text, declared.formula):
            return "", ""
        return text, f"the statement's bound is {values[2] / values[3]:.4g} times the formula's"
    return "", ""


def _link_problem(declared: Declaration, phrase: str, meaning: str) -> str:
    """Return a problem if the entry does not print a link's right side, or if the phrase's value X
    does not solve the link's equation.
    """
    left, _, printed = meaning.rpartition(" == ")
    if not any(
        _occurs_in(printed, text) if left else printed in text for text in _origin_texts(declared)
    ):
        return f'"{phrase}" means "{printed}", which the entry does not print'
    if not left:
        return ""
    free = {name: parse(f"0.{k}3") for k, name in enumerate(declared.domain, 2)}
    known = {**free, **symbols(declared), "X": parse(phrase)}
    with ctx.workprec(BITS):
        one, two = (float(evaluate(parse(side), dict(known))) for side in (left, printed))
    return (
        ""
        if abs(one - two) <= NEAR * abs(two)
        else f"with X = {phrase}, {left} is {one / two:.4g} times {printed}"
    )


# -- remaining expressions
# ---------------------------------------------------------------------------------------------


def _tokens(text: str) -> list[tuple[str, str]]:
    return [(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(text)]


def _occurs_in(run: str, text: str) -> bool:
    """Return whether a text contains the tokens of an expression in sequence, with no numeric
    factor before and no power after them.
    """
    run_tokens, text_tokens = _tokens(run), _tokens(text)
    for start in range(len(text_tokens) - len(run_tokens) + 1):
        before, after = (
            text_tokens[max(0, start - 2) : start],
            text_tokens[start + len(run_tokens) :][:1],
        )
        factor = bool(before) and before[-1][0] == "number" and before[0][1] != "^"
        if (
            text_tokens[start : start + len(run_tokens)] == run_tokens
            and not factor
            and after != [("sign", "^")]
        ):
            return True
    return False


def _count_remaining(words: str, declared: Declaration) -> int:
    """Return the number of remaining expressions and references. Raises Unreadable if one of them
    has no origin.
    """
    if word := re.search(r"\bat (?:most|least)\b", words):
        raise Unreadable(word[0])
    count = 0
    for reference in _REFERENCE.findall(words):
        number = reference.split(" ")[-1]
        forms = [reference] if number.isdigit() else [reference, number]
        if not declared.id.endswith(f"-{number}") and not any(
            _occurs_in(form, text) for form in forms for text in _origin_texts(declared)
        ):
            raise Unreadable(reference)
        count += 1
    for run in _expressions(_REFERENCE.sub(" ; ", words).replace("N(0, ", " ; ")):
        tokens = _tokens(run)
        needs_origin = any(
            kind == "number"
            or (kind == "name" and _NAMED_SYMBOL.fullmatch(text))
            or text in ("<=", ">=", "=")
            for kind, text in tokens
        )
        if not needs_origin:
            continue
        if not _has_origin(run, tokens, declared):
            raise Unreadable(run)
        count += 1
    return count


def _expressions(words: str) -> list[str]:
    """Return the maximal parts of a statement that consist of numbers, signs and symbols."""
    words = re.sub(r"(?<=[a-z])'s\b|(?<=[A-Za-z])-(?=[A-Za-z])", " ; ", words)
    words = re.sub(
        r"[A-Za-z]\w*'?\*?", lambda found: found[0] if _SYMBOL.fullmatch(found[0]) else ";", words
    )
    texts = []
    for piece in re.split(r"[;:|~]|[,.](?= |$)", words):
        text = _trim_signs(piece)
        while text.count("(") != text.count(")") and (text[0] in "()" or text[-1] in "()"):
            text = _trim_signs(text[1:] if text[0] in "()" else text[:-1])
        if text:
            texts.append(text)
    return texts


def _trim_signs(text: str) -> str:
    """Remove the signs at both ends that connect an expression with words; relations other than "="
    stay.
    """
    return re.sub(r"^(?:[ ,.;:+*/=-])+|(?:(?<![<>])=|[ ,.;:+*/-])+$", "", text)


def _has_origin(run: str, tokens: list[tuple[str, str]], declared: Declaration) -> bool:
    if run in declared.domain or run.replace(" ", "_") in declared.domain:
        return True
    is_long = len(tokens) >= _LONG_RUN or not any(kind == "number" for kind, _ in tokens)
    if any(
        _occurs_in(run, text) for text in _origin_texts(declared)[: None if is_long else _OWN_TEXTS]
    ):
        return True
    if any(kind == "name" for kind, _ in tokens) or (tree := attempt(run)) is None:
        return False
    value = float(evaluate(tree, {}))
    return value not in _COMMON_NUMBERS and value in _literals(declared)


def _origin_texts(declared: Declaration) -> list[str]:
    """Return the texts that an entry prints next to its statement, then all texts of related
    entries.

    Related entries have the same claim number, or the entry repairs or depends on them.
    """
    kin = {declared.repairs, *declared.depends}
    others = [
        it
        for id, it in declarations().items()
        if id != declared.id and (id in kin or _claim_number(id) == _claim_number(declared.id))
    ]
    texts = [declared.formula, declared.source, declared.proof]
    return texts + [
        text for it in others for text in (it.statement, it.formula, it.source, it.proof)
    ]


def _claim_number(id: str) -> str:
    return "-".join(id.split("-")[:2])


def _literals(declared: Declaration) -> frozenset[float]:
    """Return the numbers in the code of a claim's check."""
    found = set()
    for place in places(declared):
        for node in ast.walk(place.tree):
            if isinstance(node, ast.Constant) and not isinstance(node.value, bool):
                try:
                    found.add(float(str(node.value)))
                except ValueError:
                    continue
    return frozenset(found)
