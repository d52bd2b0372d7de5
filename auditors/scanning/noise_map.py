"""Noise map: where Python files draw noise, with which scale, and which functions reach it.

The map is read from the source alone, and nothing is imported. A call draws noise if its name,
after the imports of the file, belongs to the primitives of `recording/tables` or to a function of
another library that draws. A function reaches a site if it contains it, or refers to a function of
the same files that reaches it.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpwitness.auditors.scanning.ranges import columns_of, guards_of, limits_of, names_in, values_of
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.recording.primitives import known_primitives

_SKIPPED = re.compile(
    r"(tests?|testing|test_.*|.*_tests?|conftest|setup|docs?|examples?|build|v?env|\..*)"
)
# whose functions draw, where a table names the function, or its name says so
_SOURCES = re.compile(
    r"(numpy|cupy|jax|tensorflow|tf|paddle|mxnet)\.random\.|random\.|secrets\.|os\.urandom|torch\.|"
    r"scipy\.stats\.|tensorflow_probability\.|Crypto\.Random|numpyro\.|pymc\."
)
# whose functions and classes are mechanisms, where their name says so
_LIBRARIES = re.compile(
    r"(diffprivlib|opendp|pydp|tmlt|opacus|smartnoise|snsql|snsynth|pipeline_dp|tensorflow_privacy|"
    r"dp_accounting|jax_privacy|pfl|flamby)\."
)
_DRAWS = re.compile(
    r"laplac|gauss|normal|geometric|gumbel|exponential|binomial|poisson|bernoulli|cauchy|gamma|"
    r"logistic|student|uniform|rand|choice|shuffle|permut|rvs|r?sample$|urandom|token_|mechanism|noise",
    re.I,
)
_NO_DRAW = re.compile(
    r"(default_rng|Generator|RandomState|SeedSequence|PCG64|Philox|MT19937|seed|PRNGKey|key|split|"
    r"SystemRandom|Random|[gs]et_r?n?g?_?state|manual_seed|fork_rng|fold_in|random_split)$"
)
# names of functions outside of the files, such as compiled ones, that speak of noise
_SPEAKING = re.compile(r"laplac|gauss|geometric|add_noise|randomi[sz]e|noisy", re.I)
_DISTRIBUTION = re.compile(r"dist|laplac|gauss|normal|noise", re.I)
_GENERATOR = re.compile(r"rng|rand|gen|prng|\brs\b|secure|state", re.I)
COMMON_LAWS = (
    "uniform",
    "choice",
    "permutation",
    "noise",
    "binomial",
)  # of common calls, also for other purposes


@dataclass(frozen=True, slots=True)
class FunctionParameter:
    """Parameter of a function: name, and default and type hint as source; `required` without a
    default.
    """

    name: str
    default: str = ""
    hint: str = ""

    @property
    def required(self) -> bool:
        return not self.default


@dataclass(frozen=True, slots=True)
class Site:
    """A call that draws noise.

    Attributes
    ----------
    file, line : Path, int
        Where it is.
    call : str
        Dotted name of the called function; "?" stands for an object of unknown class.
    law : str
        Law of `mechanisms.wrappers.recording.primitives.LAWS`.
    scale : str
        Source of the scale; empty if none is given.
    function : str
        Dotted name of the function around it; of the module at its top.
    """

    file: Path
    line: int
    call: str
    law: str
    scale: str
    function: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method of the files.

    Attributes
    ----------
    path : str
        Dotted name: module, classes, function.
    module : str
        Its module.
    parameters : tuple of FunctionParameter
        Without ``self`` and ``cls``.
    doc : str
        Docstring of the function, and of its class.
    owner : str
        Dotted name of its class; empty for a function.
    static : bool
        Whether a method takes no object.
    texts : tuple of str
        Texts in its source, and in constants of its module that it uses; not the docstring.
    limits : tuple of float or str
        Numbers and names that it compares values with, clips them at, or bins them by.
    guards : tuple of float or str
        Numbers and names beyond which it raises.
    columns : dict of str to bool
        Columns of frames that it names, and whether their values are labels.
    constants : dict of str to str
        Numbers and texts, and lists of them, of its module: name and source.
    """

    path: str
    module: str
    parameters: tuple[FunctionParameter, ...]
    doc: str
    owner: str = ""
    static: bool = False
    texts: tuple[str, ...] = ()
    limits: tuple[float | str, ...] = ()
    guards: tuple[float | str, ...] = ()
    columns: Mapping[str, bool] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def is_public(self) -> bool:
        """Return whether no part of its name below the module begins with an underscore."""
        inner = self.path.removeprefix(self.module + ".")
        return not any(part.startswith("_") for part in inner.split(".")) or self.name == "__call__"


@dataclass(frozen=True, slots=True)
class NoiseMap:
    """Result of reading the source.

    Attributes
    ----------
    functions : mapping of str to Function
        Functions and methods by dotted name.
    sites : tuple of Site
        Calls that draw noise, by file and line.
    reached : mapping of str to tuple of Site
        Sites that each function reaches, its own first.
    constructors : mapping of str to str
        Dotted name of the method that initializes each class, its own or inherited.
    concrete : mapping of str to str
        Dotted name of a subclass of each abstract class.
    remarks : tuple of str
        Files that could not be read.
    """

    functions: Mapping[str, Function]
    sites: tuple[Site, ...]
    reached: Mapping[str, tuple[Site, ...]]
    constructors: Mapping[str, str]
    concrete: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def public(self) -> list[Function]:
        """Return the public functions that reach a site (a call that draws noise), in the order of
        files.
        """
        return [
            each for path, each in self.functions.items() if each.is_public and self.reached[path]
        ]


def noise_map(root: Path, files: Iterable[Path]) -> NoiseMap:
    """Return the map of Python files.

    Parameters
    ----------
    root : Path
        Folder from which the files are imported.
    files : iterable of Path
        The files.
    """
    found, remarks = _Found(), []
    for file in files:
        parts = file.relative_to(root).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError, OSError, RecursionError) as error:
            remarks.append(f"{module} cannot be read: {error}")
            continue
        _File(file, module, tree, found).visit(tree)
    return found.map(tuple(remarks))


def python_files(place: Path) -> list[Path]:
    """Return a file, or the Python files of a folder without tests, documentation and hidden
    folders. Raise InvalidArgument if there are none.
    """
    if place.is_file():
        return [place]
    found = [
        file
        for file in sorted(place.rglob("*.py"))
        if not any(map(_SKIPPED.fullmatch, file.relative_to(place).with_suffix("").parts))
    ]
    if not found:
        raise InvalidArgument(f"scan needs Python files, got {str(place)!r}, which has none")
    return found


def import_root(place: Path) -> Path:
    """Return the folder from which a file or package is imported."""
    folder = place if place.is_dir() else place.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    if folder == place and (place / "src").is_dir() and not list(place.glob("*.py")):
        return place / "src"
    return folder


@dataclass(frozen=True, slots=True)
class _Found:
    """Knowledge after some files: functions, sites, references, and classes."""

    functions: dict[str, Function] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    doubtful: list[Site] = field(
        default_factory=list
    )  # sites unless the files define what is called
    references: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    bases: dict[str, list[str]] = field(default_factory=dict)
    exported: dict[str, str] = field(default_factory=dict)  # names that a module imports

    def resolved(self, name: str) -> str:
        """Return the dotted name of what a module imports under a name, if these files define
        it.
        """
        for _ in range(8):
            head, _, last = name.rpartition(".")
            if name in self.functions or name in self.bases:
                break
            inner = self.exported.get(head) or next(iter(self.bases.get(head, ())), None)
            if name not in self.exported and inner is None:
                break
            name = self.exported.get(name, f"{inner}.{last}")
        return name

    def method(self, owner: str, name: str, depth: int = 8) -> str:
        """Return the dotted name of a method of a class, its own or inherited; empty without."""
        if f"{owner}.{name}" in self.functions:
            return f"{owner}.{name}"
        inherited = (
            self.method(self.resolved(base), name, depth - 1)
            for base in (self.bases.get(owner, ()) if depth else ())
        )
        return next(filter(None, inherited), "")

    def map(self, remarks: tuple[str, ...]) -> NoiseMap:
        """Follow the references, and return the map."""
        methods = defaultdict(list)
        modules = {each.module for each in self.functions.values()}
        for path, function in self.functions.items():
            if function.owner:
                methods[function.name].append(path)
        for site in self.doubtful:
            target = self.resolved(site.call)
            inside = target.rpartition(".")[0] in modules
            is_known = site.call[2:] in methods if site.call.startswith("?.") else inside
            if not (is_known or target in self.functions or target in self.bases):
                self.sites.append(site)
        return NoiseMap(
            self.functions,
            tuple(sorted(self.sites, key=lambda site: (site.file, site.line))),
            self._reached(self._edges(methods)),
            {owner: self.method(owner, "__init__") for owner in self.bases},
            self.concrete(),
            remarks,
        )

    def concrete(self) -> dict[str, str]:
        """Return a subclass of each abstract class."""
        return {
            self.resolved(base): owner
            for owner, bases in reversed(self.bases.items())
            for base in bases
            if {"abc.ABC", "ABC"} & {*self.bases.get(self.resolved(base), ())}
        }

    def _edges(self, methods: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
        """Return the functions to which each function refers. `methods` are those of all classes,
        by name.
        """
        edges: dict[str, set[str]] = defaultdict(set)
        for path, references in self.references.items():
            for name in references:
                target = self.resolved(name)
                head, _, last = target.rpartition(".")
                alike = [target]
                if name.startswith("?."):  # a method of an object of unknown class
                    alike = list(methods.get(name[2:], ()))
                elif target in self.bases:
                    alike = [self.method(target, "__init__")]
                elif target not in self.functions and head in self.bases:
                    alike = [self.method(head, last)]
                edges[path].update(alike if len(alike) <= 8 else ())
        return edges

    def _reached(self, edges: Mapping[str, set[str]]) -> dict[str, tuple[Site, ...]]:
        """Return the sites that each function reaches, its own first."""
        own: dict[str, list[Site]] = defaultdict(list)
        for site in self.sites:
            own[site.function].append(site)
        reached = {}
        for path in self.functions:
            seen, pending = {path: None}, [path]
            while pending:
                known = edges[pending.pop()] & self.functions.keys()
                new = sorted(known - seen.keys())
                seen |= dict.fromkeys(new)
                pending += new
            reached[path] = tuple(site for each in seen for site in own[each])
        return reached


class _File(ast.NodeVisitor):
    """Reader of one file."""

    def __init__(self, file: Path, module: str, tree: ast.Module, found: _Found) -> None:
        self.file, self.module, self.found = file, module, found
        self.imports: dict[str, str] = {}
        self.class_docs: dict[str, str] = {}
        self.constants = {
            node.targets[0].id: ast.unparse(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Constant | ast.UnaryOp | ast.Tuple | ast.List)
        }
        self.scope: list[tuple[str, str]] = []  # kind and name of enclosing classes and functions
        self.top = {
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }

    @property
    def where(self) -> str:
        """Return the dotted name of the enclosing function, as far as it can be named from
        outside.
        """
        kinds = [kind for kind, _ in self.scope]
        depth = kinds.index("function") + 1 if "function" in kinds else len(kinds)
        return ".".join([self.module, *(name for _, name in self.scope[:depth])])

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self._import(name, alias.name if alias.asname else name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        parts = self.module.split(".")
        if self.file.name != "__init__.py":
            parts = parts[:-1]
        above = parts[: len(parts) - node.level + 1] if node.level else []
        base = ".".join([*above, *filter(None, [node.module])])
        for alias in node.names:
            self._import(alias.asname or alias.name, f"{base}.{alias.name}".strip("."))

    def _import(self, name: str, dotted: str) -> None:
        self.imports[name] = dotted
        if not self.scope:
            self.found.exported[f"{self.module}.{name}"] = dotted

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        path = ".".join([self.module, *(name for _, name in self.scope), node.name])
        self.found.bases[path] = [name for base in node.bases if (name := self._dotted(base))]
        self.class_docs[path] = _docstring(node)
        if any("dataclass" in ast.unparse(each) for each in node.decorator_list):
            maker = f"{path}.__init__"
            fields = tuple(
                FunctionParameter(each.target.id, _source(each.value), _source(each.annotation))
                for each in node.body
                if isinstance(each, ast.AnnAssign)
                and isinstance(each.target, ast.Name)
                and "ClassVar" not in ast.unparse(each.annotation)
            )
            self.found.functions[maker] = Function(maker, self.module, fields, "", path)
        self._inside("class", node, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        inside_function = any(kind == "function" for kind, _ in self.scope)
        if not inside_function:
            owner = self.where if self.scope else ""
            path = f"{self.where}.{node.name}"
            made = _function(node, path, self.module, owner)
            doc = " ".join(filter(None, [made.doc, self.class_docs.get(owner)]))
            used = {name: self.constants[name] for name in names_in(node) if name in self.constants}
            held = [
                text
                for value in values_of(used).values()
                for text in (value if isinstance(value, list | tuple) else [value])
                if isinstance(text, str)
            ]
            texts = (*made.texts, *held)
            self.found.functions[path] = replace(made, doc=doc, constants=used, texts=texts)
        self._inside("function", node, [*node.decorator_list, node.args, *node.body])

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - a name of ast

    def _inside(self, kind: str, node: Any, body: Sequence[ast.AST]) -> None:
        self.scope.append((kind, node.name))
        for each in body:
            self.visit(each)
        self.scope.pop()

    def visit_Attribute(self, node: ast.Attribute | ast.Name) -> None:
        self.found.references[self.where].add(self._dotted(node))
        self.generic_visit(node)

    visit_Name = visit_Attribute  # noqa: N815 - a name of ast

    def visit_Call(self, node: ast.Call) -> None:
        name = self._dotted(node.func)
        owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        law, entry = law_of(name, owner)
        if law:
            self.found.sites.append(
                Site(self.file, node.lineno, name, law, _argument(node, entry), self.where)
            )
        elif "." in name and _SPEAKING.search(name.rpartition(".")[2]):
            self.found.doubtful.append(Site(self.file, node.lineno, name, "opaque", "", self.where))
        self.generic_visit(node)

    def _dotted(self, node: ast.AST) -> str:
        """Return the dotted name of an expression; "?" stands for an unknown object before its
        attribute, and the name is empty for other expressions.
        """
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.insert(0, node.attr)
            node = node.value
        unknown = f"?.{attributes[-1]}" if attributes else ""
        if isinstance(node, ast.Call) and len(attributes) == 1:
            made = self._dotted(node.func)
            return f"{made}.{attributes[0]}" if made and made[0] != "?" else unknown
        if not isinstance(node, ast.Name):
            return unknown
        if node.id in ("self", "cls") and attributes:
            classes = [name for kind, name in self.scope if kind == "class"]
            own = len(attributes) == 1 and classes
            return ".".join([self.module, *classes, *attributes]) if own else unknown
        inside = f"{self.module}.{node.id}" if node.id in self.top else ""
        base = self.imports.get(node.id) or inside
        return ".".join([base, *attributes]) if base else unknown or node.id


def _function(
    node: ast.FunctionDef | ast.AsyncFunctionDef, path: str, module: str, owner: str
) -> Function:
    """Return a function as its source describes it; the constants of its module are missing."""
    decorators = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    defaults: list[Any] = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    pairs = [
        *zip(plain, defaults, strict=True),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    if owner and "staticmethod" not in decorators:
        pairs = pairs[1:]
    texts = dict.fromkeys(
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )
    texts.pop(ast.get_docstring(node, clean=False) or "", None)
    return Function(
        path,
        module,
        tuple(
            FunctionParameter(each.arg, _source(default), _source(each.annotation))
            for each, default in pairs
        ),
        _docstring(node),
        owner,
        bool({"staticmethod", "classmethod"} & decorators),
        tuple(texts)[:200],
        limits_of(node),
        guards_of(node),
        columns_of(node),
    )


def _docstring(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return a docstring as one line, since a phrase may be broken at the end of a line."""
    return " ".join((ast.get_docstring(node) or "").split())


def _source(node: ast.expr | None) -> str:
    """Return the source of an expression; empty without one."""
    return "" if node is None else ast.unparse(node)


@functools.cache
def _tables() -> tuple[dict[str, Json], dict[str, Json]]:
    """Return the primitives by dotted name, and the sources of randomness by method."""
    known, sources = dict[str, Json](), dict[str, Json]()
    for name, entry, is_source, _ in known_primitives():
        known[name] = entry
        if is_source:
            sources.setdefault(name.rpartition(".")[2], entry)
    return known, sources


def law_of(name: str, root: str = "") -> tuple[str, Json]:
    """Return the law of a call and the known facts on its arguments; the law is empty for a call
    that draws no noise.
    """
    known, sources = _tables()
    last = name.rpartition(".")[2]
    entry = sources.get(last) or sources.get(last.rstrip("_"), {})
    law = str(entry.get("law") or ("noise" if _DRAWS.search(last) else ""))
    sampled = last in ("sample", "rsample")  # also of frames and lists
    common = law in COMMON_LAWS and not _GENERATOR.search(root)
    is_unknown, nothing = name.startswith("?."), ("", Json())
    rules: tuple[tuple[object, tuple[str, Json]], ...] = (
        (name in known, (known.get(name, {}).get("law", "opaque"), known.get(name, {}))),
        (is_unknown and (last == "rvs" or (sampled and _DISTRIBUTION.search(root))), ("noise", {})),
        (is_unknown and (last not in sources or sampled or common), nothing),
        (not is_unknown and _LIBRARIES.match(name) and _DRAWS.search(last), ("opaque", {})),
        (not is_unknown and (not _SOURCES.match(name) or _NO_DRAW.search(name)), nothing),
        (True, (law, entry)),
    )
    return next(found for applies, found in rules if applies)


def _argument(node: ast.Call, entry: Json) -> str:
    """Return the source of the argument that is the scale; empty if there is none."""
    wanted = str(entry.get("scale", "")).removeprefix("1 /").strip()
    names = [part.split("=")[0].strip() for part in str(entry.get("arguments", "")).split(",")]
    if names[0] == "self":
        del names[0]
    plain = itertools.takewhile(lambda part: not isinstance(part, ast.Starred), node.args)
    given = dict(zip(names, plain, strict=False))
    given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    scales = [given[name] for name in (wanted, "scale", "sigma", "std", "epsilon") if name in given]
    return ast.unparse(scales[0]) if scales else ""


def scale_names(found: NoiseMap, function: Function) -> list[str]:
    """Return the names in the scales of the noise that a function draws itself."""
    return [
        name
        for site in found.reached[function.path]
        if site.function == function.path and site.scale
        for name in names_in(ast.parse(site.scale, mode="eval"))
    ]


def constructor_parameters(found: NoiseMap, function: Function) -> Iterator[FunctionParameter]:
    """Yield the parameters of the constructor of a method's class."""
    path = found.constructors.get(function.owner, "")
    if path and not function.static:
        yield from found.functions[path].parameters
