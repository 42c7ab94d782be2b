"""Draws ARCHITECTURE.md from the code: the rooms, what each is for, and which rooms it imports.

    python tools/architecture.py            writes ARCHITECTURE.md
    python tools/architecture.py --check    exits with 1 if it is not what the code says

What is written by hand stands in tools/architecture.md.in; `{rooms}`, `{imports}` and `{files}` are filled in.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "plankwise"
TARGET, TEMPLATE = ROOT / "ARCHITECTURE.md", ROOT / "tools" / "architecture.md.in"

# Lowest first: a room may import the rooms above its line, never those below; rooms of one line do not import each other.
LEVELS: list[tuple[str, ...]] = [
    ("errors",),
    ("files", "kinds", "toml"),
    ("options",),
    ("analysis_options", "augmentation_options", "efforts", "start_options"),
    ("plan_options",),
    ("config", "record", "context"),
    ("report",),
    ("core",),
    ("families",),
    ("parts",),
    ("keys",),
    ("models",),
    ("solving",),
    ("data",),
    ("runtimes",),
    ("evaluation",),
    ("export",),
    ("tasks",),
    ("task_kinds",),
    ("training",),
    ("methods",),
    ("estimate",),
    ("run",),
    ("comparison",),
    ("frontier",),
    ("search", "sweep"),
    ("studies",),
    ("api",),
    ("cli",),
    ("__main__",),
]
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def room_of(path: Path) -> str:
    """The folder below the package that a file is in, or the file itself."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[str]:
    """The full names of the modules of plankwise that a file imports, at its top or inside a function, relative ones too."""
    package = ["plankwise", *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "plankwise")
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*above, *([node.module] if node.module else [])])
            if name.split(".")[0] == "plankwise":
                yield name
                yield from (f"{name}.{alias.name}" for alias in node.names)


def dynamic_imports_of(path: Path) -> Iterator[str]:
    """Calls in a file that import what a string names."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in ("__import__", "import_module", "importlib.import_module"):
                yield f"line {node.lineno}: {ast.unparse(node)}"


def rooms_imported() -> dict[str, set[str]]:
    """For each room, the other rooms that its files import."""
    rooms = [room for level in LEVELS for room in level]
    found: dict[str, set[str]] = {room: set() for room in rooms}
    for path in FILES:
        for name in imports_of(path):
            parts = name.split(".")
            if len(parts) > 1 and parts[1] in found and parts[1] != room_of(path):
                found[room_of(path)].add(parts[1])
    return found


def summary(path: Path) -> str:
    """The first sentence of a module's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return text.split("\n")[0].rstrip(".")


def draw() -> str:
    """The text of ARCHITECTURE.md."""
    imported = rooms_imported()
    rooms, files = [], []
    for level in LEVELS:
        for room in level:
            file = SOURCE / f"{room}.py"
            home = file if file.exists() else SOURCE / room / "__init__.py"
            name = f"`{room}.py`" if file.exists() else f"`{room}/`"
            rooms.append(f"| {name} | {summary(home)} | {', '.join(sorted(imported[room])) or '–'} |")
            if not file.exists():
                files.append(f"**{room}/**\n")
                own = sorted(path for path in FILES if room_of(path) == room and path.name != "__init__.py")
                files += [f"- `{path.relative_to(SOURCE / room)}`: {summary(path)}" for path in own]
                files.append("")
    table = ["| room | what it is for | imports |", "|---|---|---|", *rooms]
    return TEMPLATE.read_text("utf-8").format(rooms="\n".join(table), files="\n".join(files).rstrip())


def main() -> None:
    text = draw()
    if "--check" in sys.argv[1:]:
        sys.exit(TARGET.read_text("utf-8") != text)
    TARGET.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
