"""The house: which package may import which, and that every address of a kind resolves.

The table is a rule, not a list of what happens to be used: data flow from declarations up to the pages,
packages beside each other do not see each other, and nobody takes a private name from another module.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import discreet
from benchmarks import crossings
from discreet import _registry
from discreet.mechanisms.base import Mechanism
from discreet.posterior_sampling.family import Family

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "discreet"
REPRODUCTIONS = ROOT / "reproductions" / "src" / "discreet_reproductions"

BASE = {"errors", "_declarations", "_typing", "_text", "_json", "_html", "_version", "_registry", "_interop"}
BELOW_MAKERS = BASE | {"_numerics", "_randomness", "privacy", "distributions", "ledger", "_documents"}
MAKERS = {"mechanisms", "posterior_sampling", "regression"}
BELOW_ANSWERS = BELOW_MAKERS | MAKERS | {"_inference"}
ALLOWED: dict[str, set[str]] = {
    "_numerics": BASE,
    "_randomness": BASE | {"_numerics"},
    "privacy": BASE | {"_numerics"},
    "distributions": BASE | {"_numerics"},
    "ledger": BASE | {"privacy"},
    "_documents": BASE | {"privacy", "ledger"},
    "schema": BASE,
    "_data": BASE | {"schema"},
    "mechanisms": BELOW_MAKERS,
    "posterior_sampling": BELOW_MAKERS | {"_data"},
    "regression": BELOW_MAKERS | {"_data"},
    "_inference": BELOW_MAKERS | MAKERS,
    "answers": BELOW_ANSWERS,
    "questions": BELOW_ANSWERS | {"schema", "answers", "_data"},
    "planning": BELOW_ANSWERS | {"schema", "answers", "questions"},
    "_reporting": BELOW_ANSWERS | {"answers", "questions", "planning"},
    "study": BELOW_ANSWERS | {"schema", "answers", "questions", "planning", "_reporting"},
    "_studio": BELOW_ANSWERS | {"schema", "answers", "questions", "planning", "_reporting", "study", "_data"},
    "_cli": BELOW_ANSWERS
    | {"schema", "answers", "questions", "planning", "_reporting", "study", "_studio", "_data", "(facade)"},
}
DOORS = {"plots", "numpyro", "pymc", "stan", "extending"}
"""Thin public doors, flat, which may look at anything and at which nobody looks but the facade."""


def is_module(name: str) -> bool:
    """Whether a private name is that of a module or package: ours alone, and open to all of it."""
    return any(PACKAGE.rglob(f"{name}.py")) or any(path.is_dir() for path in PACKAGE.rglob(name))


def package_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "(facade)"


def imports(source: str) -> Iterator[tuple[int, str, list[str]]]:
    """(line, module, names) of every import of ours in a source, wherever it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "discreet":
                    yield node.lineno, alias.name, []
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "(relative)", []
            elif node.module == "discreet":
                for alias in node.names:
                    known = alias.name in ALLOWED or alias.name in BASE or alias.name in DOORS
                    yield node.lineno, f"discreet.{alias.name}" if known else "discreet", [alias.name]
            elif node.module and node.module.split(".")[0] == "discreet":
                yield node.lineno, node.module, [alias.name for alias in node.names]


def private_names(source: str) -> list[str]:
    """Names with an underscore that a source takes from modules of ours or from objects of others."""
    found = [
        name
        for _, target, names in imports(source)
        for name in [*target.split(".")[1:], *names]
        if name.startswith("_") and name != "__version__" and not is_module(name)
    ]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner not in {"self", "cls", "os"}:
                found.append(node.attr)
    return found


def problems_of(module: str, source: str) -> list[str]:
    """What a module imports and may not: by package, relatively, or a private name of another module."""
    own, found = package_of(module), []
    if own in DOORS or own == "(facade)":
        allowed = None
    elif own in BASE:
        allowed = BASE
    else:
        allowed = ALLOWED[own] | {own}
    for line, target, names in imports(source):
        package = package_of(target)
        if target == "(relative)" or (allowed is not None and package not in allowed):
            found.append(
                f"{module}: line {line}: {own} imports {package if target != '(relative)' else target}"
            )
        private = [n for n in names if n.startswith("_") and not n.startswith("__") and not is_module(n)]
        found += [f"{module}: line {line}: {name} is private to another module" for name in private]
    return found


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ["discreet", *path.relative_to(PACKAGE).with_suffix("").parts]
        if parts[-1] == "__main__" and len(parts) == 2:
            parts = ["discreet", "_cli", "__main__"]
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def test_every_module_has_a_package() -> None:
    packages = {package_of(module) for module, _ in modules()}
    assert packages <= {*ALLOWED, *BASE, *DOORS, "(facade)"}


def test_rooms_import_what_they_may() -> None:
    found = [text for module, path in modules() for text in problems_of(module, path.read_text("utf-8"))]
    assert not found, "\n".join(found)


def test_reproductions_take_no_private_name() -> None:
    sources = {path: private_names(path.read_text("utf-8")) for path in REPRODUCTIONS.rglob("*.py")}
    assert not {path.name: names for path, names in sources.items() if names}
    seen = private_names("from discreet._typing import _Hidden\nsetting._distribution(self._rows)")
    assert seen == ["_Hidden", "_distribution"]


def test_the_rule_is_not_much_wider_than_the_use() -> None:
    found = set()
    for module, path in modules():
        found |= {
            (package_of(module), package_of(target)) for _, target, _ in imports(path.read_text("utf-8"))
        }
    used = {(a, "(base)" if b in BASE else b) for a, b in found if a != b and a in ALLOWED}
    allowed = {(a, "(base)" if b in BASE else b) for a, targets in ALLOWED.items() for b in targets}
    assert len(allowed) <= 2 * len(used & allowed), (len(allowed), len(used))


@pytest.mark.parametrize(
    ("module", "source", "count"),
    [
        ("discreet.errors", "from discreet._randomness.integers import geometric", 1),
        ("discreet._randomness.integers", "from discreet._declarations import Relation", 0),
        ("discreet._data.files", "if TYPE_CHECKING:\n    from discreet._cli import main", 1),
        ("discreet._data.files", "def f():\n    import discreet.answers.release", 1),
        ("discreet.mechanisms.lattice", "from discreet.mechanisms.base import Mechanism", 0),
        ("discreet.mechanisms.lattice", "from discreet.mechanisms.base import _as_json", 1),
        ("discreet.mechanisms.lattice", "from discreet.posterior_sampling.family import Family", 1),
        ("discreet._numerics.search", "from . import enclosures", 1),
        ("discreet.answers.release", "from discreet import plots", 1),
        ("discreet.answers.release", "from discreet import release", 1),
        ("discreet._cli.releasing", "import discreet", 0),
        ("discreet.plots", "from discreet.answers.release import Release", 0),
    ],
)
def test_the_check_sees_what_it_should(module: str, source: str, count: int) -> None:
    assert len(problems_of(module, source)) == count


def code_lines(source: str) -> int:
    """Lines that hold more than a docstring, a comment or nothing."""
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    layout.add(tokenize.ENDMARKER)
    held, described = set[int](), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in layout:
            held.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            described.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(held - described)


def test_the_product_stays_small() -> None:
    """``pytest -s`` prints how much there is."""
    sources = [path.read_text(encoding="utf-8") for _, path in modules()]
    code, lines = sum(map(code_lines, sources)), sum(source.count("\n") for source in sources)
    print(f"{len(sources)} modules, {lines:,} lines, {code:,} without docstrings, comments and blank lines")
    assert code_lines('"""What."""\n\nx = """a\nb"""  # why\n\n# so\n') == 2
    assert 10_000 < code < 34_160
    assert lines < 64_000  # half of them docstrings: the reference is made from these


def test_few_names_are_public() -> None:
    """Functions and classes of modules without an underscore, in the whole package and in the facade."""
    count = 0
    for module, path in modules():
        if not any(part.startswith("_") for part in module.split(".")):
            body = ast.parse(path.read_text("utf-8")).body
            names = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
            count += sum(not name.startswith("_") for name in names)
    assert 100 < count <= 300, count
    assert len(discreet.__all__) <= 45


def test_every_address_of_a_kind_resolves() -> None:
    registries = [thing for thing in vars(_registry).values() if isinstance(thing, _registry.Registry)]
    assert registries
    for registry in registries:
        for kind, thing in registry.items():
            assert thing is not None, kind


@pytest.mark.parametrize(
    ("name", "most", "pairs"),
    [("release", 66, 0), ("summary", 150, 0), ("regression", 211, 5), ("study", 360, 0)],
)
def test_an_answer_takes_a_short_way(name: str, most: int, pairs: int) -> None:
    """``python benchmarks/crossings.py`` prints the table; lower the numbers when the code allows it."""
    found = crossings.measure(crossings.SCRIPTS[name])
    assert 20 < len(found) <= most
    assert len(crossings.both_ways(found)) <= pairs, crossings.both_ways(found)
    assert crossings.both_ways([("a", "f", "b", "g"), ("b", "g", "a", "h"), ("a", "f", "c", "g")]) == [
        ("a", "b")
    ]


def test_a_base_class_has_few_public_members() -> None:
    """What somebody who writes a family or a mechanism has to read: names without an underscore."""
    for base, most in ((Family, 30), (Mechanism, 20)):
        assert len([name for name in dir(base) if not name.startswith("_")]) <= most, base.__name__
