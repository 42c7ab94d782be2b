"""Who may import whom (each room only rooms below it), files of a readable size, and a light `import plankwise`."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "plankwise"
# Lowest first; rooms in one set never import each other.
LEVELS: list[set[str]] = [
    {"errors"},
    {"files", "kinds", "options"},
    {"config", "record"},
    {"folders", "report"},
    {"core"},
    {"parts", "families", "tasks"},
    {"data"},
    {"training"},
    {"methods", "evaluation"},
    {"examples"},
    {"estimate", "measuring"},
    {"ground"},
    {"run"},
    {"inference", "analysis", "comparison"},
    {"studies"},
    {"cli"},
]
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """The full names of the modules that a file imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_rooms_below_its_own(path):
    level = {name: index for index, names in enumerate(LEVELS) for name in names}
    assert room(path) in level, f"{room(path)} has no place in LEVELS"
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "plankwise" and len(parts) > 1 and parts[1] in level and parts[1] != room(path):
            assert level[parts[1]] < level[room(path)], f"{path.name} imports {name}"


@pytest.mark.parametrize("path", [path for path in FILES if room(path) == "core"], ids=lambda path: path.name)
def test_the_core_needs_torch_and_nothing_else(path):
    allowed = {"torch", "plankwise", *sys.stdlib_module_names}
    assert {name.split(".")[0] for name in imports(path)} <= allowed


def test_no_file_is_longer_than_400_lines():
    tests = Path(__file__).parent.rglob("*.py")
    long = {path.name: count for path in [*FILES, *tests] if (count := len(path.read_text("utf-8").splitlines())) > 400}
    assert not long


def test_importing_plankwise_and_asking_for_help_loads_neither_torch_nor_transformers():
    code = (
        "import sys, plankwise, plankwise.cli; plankwise.cli.build(); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'datasets')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_public_names_are_there():
    import plankwise

    for name in plankwise.__all__:
        assert getattr(plankwise, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'teacher'"):
        _ = plankwise.teacher
