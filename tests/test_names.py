"""Names that a module defines are used by something that is no test, and no class or function is named like another.

A name counts as used where its own module reads it outside its own definition, where another module imports it, or where
another module reads it as an attribute of the imported module. Only names at the top of a module are looked at: functions,
classes and constants, not methods or fields. Private names are their module's own: any other may have the same.
"""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("stage_model", "placement", "master_memory", "controller", "experiments")
SCRIPTS = ("bridge/build.py", "hatch_build.py", "sparkpace.py")
"""Programs of the project outside its packages: they use names but define none for others."""
DEMANDED = {
    "*": {"main"},
    "stage_model.laws.*": {"decide", "planned_cores"},
    "controller.runtime.*.runtime": {"check", "make", "end_all", "driver_address"},
    "experiments.workloads.*": {
        "as_text",
        "check_part",
        "combine",
        "expected",
        "factor_and_offset",
        "is_whole",
        "one_period",
        "serial",
    },
}
"""Names that each module of a kind may define: a program's, what a table asks of a law or a runtime, and the parts of a
workload, which is the only file that Spark is given, so that it can import none of another."""

Name = tuple[str, str]
"""A module's dotted name and a name in it."""


def test_no_name_is_used_only_by_tests() -> None:
    assert unused(ROOT, PRODUCT, SCRIPTS) == []


def test_the_finder_tells_the_unused_names_of_a_tree(tmp_path: Path) -> None:
    write(tmp_path / "app" / "shapes.py", "LIMIT = 3\nSPARE: int = 4\ndef area(): ...\ndef again(n): return again(n - 1)\n")
    write(tmp_path / "app" / "rings.py", "LIMIT = 5\nclass Ring: ...\ndef area(): return LIMIT\n")
    write(tmp_path / "app" / "main.py", "from app import rings\nimport app.shapes\nrings.Ring(app.shapes.LIMIT)\n")
    write(tmp_path / "tests" / "test_shapes.py", "from app.shapes import SPARE, area\n")
    assert unused(tmp_path, ("app",)) == ["app.rings.area", "app.shapes.SPARE", "app.shapes.again", "app.shapes.area"]


def test_a_function_that_its_decorator_registers_is_used(tmp_path: Path) -> None:
    write(
        tmp_path / "app" / "cli.py",
        "import click\n@click.group()\ndef main(): ...\n@main.command('go')\ndef go(): ...\nmain()\n",
    )
    assert unused(tmp_path, ("app",)) == []


def test_a_script_uses_names_and_needs_no_user(tmp_path: Path) -> None:
    write(tmp_path / "app" / "shapes.py", "def area(): ...\ndef angle(): ...\n")
    write(tmp_path / "build.py", "from app.shapes import area\nclass Hook: ...\n")
    assert unused(tmp_path, ("app",), ("build.py",)) == ["app.shapes.angle"]


def test_a_module_that_a_table_names_is_used_by_its_name(tmp_path: Path) -> None:
    write(tmp_path / "app" / "round.py", "def draw(): ...\ndef rest(): ...\n")
    write(tmp_path / "app" / "table.py", "def draw(name): load({'round': 'app.round'}[name]).draw()\ndraw('round')\n")
    assert unused(tmp_path, ("app",)) == ["app.round.rest"]


def test_no_two_things_have_one_name() -> None:
    assert twice(ROOT, PRODUCT, DEMANDED) == []


def test_the_finder_tells_the_names_that_a_tree_defines_twice(tmp_path: Path) -> None:
    write(
        tmp_path / "app" / "shapes.py", "LIMIT = 3\nclass Ring:\n    def area(self): ...\ndef turn(): ...\ndef _own(): ...\n"
    )
    write(tmp_path / "app" / "bells.py", "LIMIT = 5\nclass Ring: ...\nasync def area(): ...\ndef _own(): ...\n")
    write(tmp_path / "lib" / "moves.py", "from app.shapes import Ring\ndef turn(): ...\ndef rest(): ...\n")
    assert twice(tmp_path, ("app", "lib"), {}) == ["Ring: app.bells, app.shapes", "turn: app.shapes, lib.moves"]


def test_modules_of_a_kind_may_define_what_is_demanded_of_each_and_no_other_module_may(tmp_path: Path) -> None:
    for name in ("round", "square"):
        write(tmp_path / "app" / "shapes" / f"{name}.py", "def area(): ...\ndef turn(): ...\n")
    assert twice(tmp_path, ("app",), {"app.shapes.*": {"area"}}) == ["turn: app.shapes.round, app.shapes.square"]
    write(tmp_path / "app" / "fields.py", "def area(): ...\n")
    assert twice(tmp_path, ("app",), {"app.shapes.*": {"area", "turn"}}) == ["area: app.fields, app.shapes.*"]


# ---------------------------------------------------------------- the finders


def unused(root: Path, packages: tuple[str, ...], scripts: tuple[str, ...] = ()) -> list[str]:
    """Return dotted names defined at the top of the packages' modules and used in none of them, nor in a script; sorted."""
    trees = modules_of(root, packages)
    users = trees | {script: ast.parse((root / script).read_text()) for script in scripts}
    used = {name for user, tree in users.items() for name in uses(user, tree, trees)}
    used |= set(uses_by_name(users.values(), trees))
    return sorted(f"{where}.{name}" for where, tree in trees.items() for name in defined(tree) if (where, name) not in used)


def twice(root: Path, packages: tuple[str, ...], demanded: Mapping[str, Collection[str]]) -> list[str]:
    """Return public classes and functions that the packages define in several places at the top of modules, with these;
    sorted. Modules of a kind (a pattern in `demanded`) are one place for the names that are demanded of each."""
    places: dict[str, set[str]] = defaultdict(set)
    for where, tree in modules_of(root, packages).items():
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                kinds = (kind for kind in demanded if statement.name in demanded[kind] and fnmatchcase(where, kind))
                places[statement.name].add(next(kinds, where))
    found = {name: sorted(there) for name, there in places.items() if len(there) > 1 and not name.startswith("_")}
    return sorted(f"{name}: {', '.join(there)}" for name, there in found.items())


def modules_of(root: Path, packages: tuple[str, ...]) -> dict[str, ast.Module]:
    files = [file for package in packages for file in (root / package).rglob("*.py")]
    return {module(file, root): ast.parse(file.read_text()) for file in files}


def module(file: Path, root: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def defined(tree: ast.Module) -> Iterator[str]:
    """Return the names that a module defines at its top, but for what Python itself asks for and what a decorator takes."""
    for statement in tree.body:
        for name in names(statement):
            if not name.startswith("__") and not registered(statement):
                yield name


def names(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [statement.name]
        case ast.Assign():
            return [node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def registered(statement: ast.stmt) -> bool:
    """Check that a decorator (`@main.command()`) hands the function to a caller."""
    return isinstance(statement, ast.FunctionDef) and any(
        isinstance(made.func, ast.Attribute) and made.func.attr in ("command", "group")
        for made in statement.decorator_list
        if isinstance(made, ast.Call)
    )


def uses(user: str, tree: ast.Module, modules: Mapping[str, ast.Module]) -> Iterator[Name]:
    """Yield the names that one module uses of itself and of the others."""
    for statement in tree.body:
        own = names(statement)
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in own:
                yield user, node.id
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {one.asname or one.name: one.name for one in node.names if one.name in modules}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                yield node.module, one.name
                if f"{node.module}.{one.name}" in modules:
                    known[one.asname or one.name] = f"{node.module}.{one.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (of := known.get(dotted(node.value))):
            yield of, node.attr


def uses_by_name(users: Iterable[ast.Module], modules: Mapping[str, ast.Module]) -> Iterator[Name]:
    """Yield the names that modules use by strings: a module whose name is a string somewhere is imported by that name; any
    attribute that is read may be its."""
    nodes = [node for tree in users for node in ast.walk(tree)]
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    named = {node.value for node in nodes if isinstance(node, ast.Constant) and node.value in modules}
    yield from itertools.product(named, read)


def dotted(value: ast.expr) -> str:
    """Return `a.b.c` as it is written; empty for anything else."""
    if isinstance(value, ast.Attribute):
        return f"{before}.{value.attr}" if (before := dotted(value.value)) else ""
    return value.id if isinstance(value, ast.Name) else ""


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
