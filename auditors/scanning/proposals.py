"""Proposals: for each name the call to use, the confidence in its claim, and the parts that a
person must fill in if no call works.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dpwitness.auditors.scanning.data_forms import relation_of
from dpwitness.auditors.scanning.names import PublicName, read_name, with_examples, with_makers
from dpwitness.auditors.scanning.package_discovery import Discovered
from dpwitness.auditors.scanning.readings import Reading, convention_of, draws_noise, read
from dpwitness.auditors.scanning.recipes import Recipe
from dpwitness.auditors.scanning.trials import (
    Trial,
    TrialFile,
    chosen,
    limits,
    try_recipes,
    write_trials,
)
from dpwitness.auditors.scanning.vocabulary import METRIC, PRIVACY_WORDS

# in the summary of a package
_PRIVATE = re.compile(
    r"differential(ly)?[ -]priva|privacy mechanism|geo-?indistinguish|\bl?dp\b", re.I
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """Proposal of a scan for one public name.

    Attributes
    ----------
    reading : Reading
        What the name is, and why.
    target : str
        Name of its function in the target file; empty for a name that gets none.
    recipe : Recipe or None
        The call to audit; for a skeleton, the most likely call.
    trial : Trial or None
        Outcome of the trial calls of the recipe.
    guess : str
        Sentence on what is guessed in claim, relation and domain; empty if the claim is certain.
    why : str
        Why the name is not audited; empty for a target that can run.
    """

    reading: Reading
    target: str = ""
    recipe: Recipe | None = None
    trial: Trial | None = None
    guess: str = ""
    why: str = ""

    @property
    def role(self) -> str:
        return self.reading.role

    @property
    def runs(self) -> bool:
        """Return whether the target file holds a function of this name that can be audited."""
        return (self.recipe is not None or self.reading.declared) and not self.why

    @property
    def confidence(self) -> str:
        """Return how far the claim can be relied on: ``certain``, ``docstring``, or ``name``; empty
        for a name without a claim.

        A claim is certain if the library computes or declares it. It is read from the docstring if
        the docstring calls the parameter a privacy parameter, else from the name of the parameter
        only. Both are guesses.
        """
        if not self.runs:
            return ""
        if not self.guess:
            return "certain"
        return (
            "docstring"
            if self.recipe is not None and PRIVACY_WORDS.search(self.recipe.claim.words)
            else "name"
        )

    @property
    def is_skeleton(self) -> bool:
        return bool(self.target) and not self.runs and self.role in ("mechanism", "transformation")


def readings_of(found: Discovered) -> list[Reading]:
    """Return the readings of all discovered names."""
    names = with_makers(with_examples([read_name(each) for each in found.objects], found.examples))
    classes: dict[str, PublicName] = {}
    for each, name in zip(found.objects, names, strict=True):
        if name.kind == "class":
            classes[name.path] = name
            classes.setdefault(each["defined"].replace(":", "."), name)
    convention, summary = convention_of(names), str(found.about.get("summary", ""))
    if metric := METRIC.search(summary.partition("\n")[0]):  # the claim of the package as a whole
        names = [replace(name, doc=f"{name.doc}\n\nPackage: {metric[0]}") for name in names]
    private = bool(_PRIVATE.search(summary))
    return [read(name, classes, convention, private) for name in names]


def propose(
    readings: Sequence[Reading],
    folder: Path,
    *,
    python: str | None,
    preamble: str,
    root: str,
    memory: float,
    deadline: float,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Proposal]:
    """Try the calls of all readings, and return a proposal for each.

    Parameters
    ----------
    readings : sequence of Reading
        Readings of public names.
    folder : Path
        Folder for the file of trial calls; the only folder that the calls may write to.
    python : str or None
        Interpreter of the package.
    preamble : str
        Lines of Python before the imports (`Discovered.preamble`).
    root : str
        Folder that the package is imported from; empty for an installed package.
    memory : float
        Limit of each worker's address space in gigabytes; 0 for none.
    deadline : float
        Time of `time.monotonic` after which no further call is tried.
    progress : callable, optional
        Called with the number of names done, their total, and the name.
    """
    names = target_names([reading.name for reading in readings])
    ready = {f"call_{n}": callable_recipes(reading) for n, reading in enumerate(readings)}
    file = folder / "trial_calls.py"
    write_trials(ready, file, root=root, preamble=preamble)
    found = []
    with limits(folder):
        for n, reading in enumerate(readings):
            if progress is not None:
                progress(n, len(readings), reading.name.path)
            recipes = ready[f"call_{n}"]
            trials = (
                try_recipes(recipes, f"call_{n}", TrialFile(file, python, memory), deadline)
                if recipes
                else []
            )
            found.append(conclude(reading, names[n], recipes, trials))
    return found


def callable_recipes(reading: Reading) -> list[Recipe]:
    """Return the recipes without missing parts, as many as are tried."""
    return [
        recipe
        for recipe in reading.recipes
        if not recipe.missing and (recipe.claim.text or recipe.spent)
    ][:60]


def conclude(
    reading: Reading, target: str, recipes: Sequence[Recipe], tried: Sequence[tuple[Recipe, Trial]]
) -> Proposal:
    """Return the proposal for a name whose recipes had these outcomes."""
    if reading.declared:
        return Proposal(
            reading,
            target,
            why="" if reading.name.declared.get("domain") is not None else "it declares no domain",
        )
    if not reading.recipes:
        return Proposal(reading, target if reading.role != "other" else "", why=reading.skip)
    if not recipes:
        return Proposal(reading, target, reading.recipes[0], why=_missing(reading))
    number, trials = chosen(tried), [trial for _, trial in tried]
    if number is not None:
        recipe, trial = tried[number]
        return Proposal(reading, target, recipe, trial, _guess(reading, recipe))
    if not trials:
        return Proposal(reading, target, recipes[0], why="the time for trial calls was over")
    plain = not (reading.name.compiled or reading.name.names)
    if (all(trial.constant for trial in trials) and not draws_noise(reading.name)) or (
        plain and any(trial.constant for trial in trials)
    ):
        because = Counter(trial.why for trial in trials).most_common(1)[0][0]
        return Proposal(replace(reading, role="other", skip=because), why=because)
    if all("NotImplementedError" in trial.why or "Must implement" in trial.why for trial in trials):
        return Proposal(
            replace(reading, role="other", skip="abstract: its method is not implemented"),
            why="abstract: its method is not implemented",
        )
    return Proposal(
        reading, target, recipes[0], why=f"no proposed call works: {_most_telling(trials)}"
    )


def _most_telling(trials: Sequence[Trial]) -> str:
    """Return the most frequent reason of failed trials, without TypeError and AttributeError if
    there are other reasons.
    """
    if any(re.search(r"<class 'missing\.|'Missing'", trial.why) for trial in trials):
        return "it needs a library that is not installed"
    reasons = [
        trial.why for trial in trials if not re.search("TypeError|AttributeError", trial.why)
    ]
    return Counter(reasons or [trial.why for trial in trials]).most_common(1)[0][0]


def _missing(reading: Reading) -> str:
    """Return the parts that a person must fill in, for the recipe with the fewest missing parts."""
    recipe = min(reading.recipes, key=lambda each: len(each.missing) + (not each.claim.text))
    parts = (
        [f"no value is known for {', '.join(dict.fromkeys(recipe.missing))}"]
        if recipe.missing
        else []
    )
    return "; ".join(
        [*parts, *([f"missing: {recipe.claim.missing}"] if recipe.claim.missing else [])]
    )


def _guess(reading: Reading, recipe: Recipe) -> str:
    """Return the guessed parts of a claim; empty if the library computes the claim and its types
    state the domain.
    """
    if recipe.spent:
        return recipe.claim.guess
    words = f" ({recipe.claim.words})" if recipe.claim.words else ""
    return (
        f"the claim is {recipe.claim.text} under {recipe.form.relation}, read from "
        f"{reading.because}{words}"
    )


def relation_words(reading: Reading, recipe: Recipe) -> str:
    """Return the reason for the choice of the relation."""
    if recipe.form.domain["kind"] in ("Answers", "Counts"):
        return f"the neighbors of {recipe.form.what} differ by at most 1 in a norm"
    if not recipe.form.many:
        return "one person's value is replaced"
    others = [p for p in recipe.parameters if p.name != recipe.data]
    return (
        relation_of(reading.name.doc, reading.name.name, others)[1]
        or "replace-one, as nothing says otherwise"
    )


def target_names(names: Sequence[PublicName]) -> list[str]:
    """Return a valid and unique function name for each public name: its last part, with more of the
    path where that is ambiguous.
    """
    found = []
    counts = Counter(name.name.lower() for name in names)
    taken: set[str] = set()
    for name in names:
        parts = name.path.split(".")
        keep = 1 if counts[name.name.lower()] == 1 else 2
        text = re.sub(r"\W", "_", "_".join(parts[-keep:]))
        while (
            text in taken
            or text in ("np", "random", "run", "urllib", "os", "sys", parts[0])
            or hasattr(builtins, text)
        ):
            keep += 1
            text = re.sub(r"\W", "_", "_".join(parts[-keep:])) if keep <= len(parts) else f"{text}_"
        taken.add(text)
        found.append(text)
    return found
