"""Who may import whom, what is private, files of a readable size, a light import, and an ARCHITECTURE.md that is true."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("architecture", ROOT / "tools" / "architecture.py")
architecture = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(architecture)
FILES, SOURCE, room_of = architecture.FILES, architecture.SOURCE, architecture.room_of
LOADERS = {SOURCE / "kinds.py"}  # the only file that imports what a string names; the package's own __init__ does, too


def name_of(path):
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_imports_only_rooms_below_its_own(path):
    level = {name: index for index, names in enumerate(architecture.LEVELS) for name in names}
    assert room_of(path) in level, f"{room_of(path)} has no place in LEVELS"
    for name in architecture.imports_of(path):
        parts = name.split(".")
        if len(parts) > 1 and parts[1] in level and parts[1] != room_of(path):
            assert level[parts[1]] < level[room_of(path)], f"{path.name} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_file_imports_what_is_private_to_another_room(path):
    for name in architecture.imports_of(path):
        _, *parts = name.split(".")
        if len(parts) > 1 and parts[0] != room_of(path):
            private = [part for part in parts[1:] if part.startswith("_") and part.lower() == part]
            assert not private, f"{path.name} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_only_kinds_are_imported_by_a_name_in_a_string(path):
    assert path in LOADERS or not list(architecture.dynamic_imports_of(path))


def test_relative_and_dynamic_imports_are_seen(tmp_path, monkeypatch):
    package = tmp_path / "plankwise" / "report"
    package.mkdir(parents=True)
    file = package / "odd.py"
    file.write_text("from ..run import compress\nfrom . import page\n__import__('plankwise.run')\n", "utf-8")
    monkeypatch.setattr(architecture, "SOURCE", tmp_path / "plankwise")
    assert {"plankwise.run", "plankwise.run.compress", "plankwise.report.page"} <= set(architecture.imports_of(file))
    assert len(list(architecture.dynamic_imports_of(file))) == 1


@pytest.mark.parametrize("path", [path for path in FILES if room_of(path) == "core"], ids=lambda path: path.name)
def test_the_core_needs_torch_and_nothing_else(path):
    import ast

    allowed = {"torch", "plankwise", *sys.stdlib_module_names}
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    assert found <= allowed


def test_no_file_is_longer_than_400_lines():
    others = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]
    sizes = {path.name: len(path.read_text("utf-8").splitlines()) for path in [*FILES, *others]}
    assert not {name: count for name, count in sizes.items() if count > 400}


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


def test_architecture_md_is_drawn_from_the_code():
    drawn = architecture.draw()
    assert (ROOT / "ARCHITECTURE.md").read_text("utf-8") == drawn, "run: python tools/architecture.py"
