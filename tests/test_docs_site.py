"""The site of docs/: built without a warning, complete where it is generated, true where it quotes, in need of no network."""

import ast
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
DOCS, SOURCE = ROOT / "docs", ROOT / "src" / "plankwise"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


picture = tool("picture")


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return tool("reference")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built as `make docs` builds it; a warning is an error there."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    path = list(sys.path)
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    sys.path[:] = path
    return folder


def files_of(folder: str) -> list[str]:
    """The names of the kinds in a folder of the package, by its files."""
    return [path.stem for path in sorted((SOURCE / folder).glob("*.py")) if not path.name.startswith("_")]


def flatten(tree: dict, path: str) -> list[str]:
    return [key for name, value in tree.items() for key in [f"{path}.{name}", *below(value, f"{path}.{name}")]]


def below(value: object, path: str) -> list[str]:
    return flatten(value, path) if isinstance(value, dict) else []


def test_the_picture_is_what_the_script_draws():
    assert picture.TARGET.read_text("utf-8") == picture.draw(), "run: python tools/picture.py"


def test_the_picture_is_small_follows_the_theme_and_asks_for_nothing():
    drawn = picture.draw()
    assert len(drawn) < 8_000
    assert "prefers-color-scheme: dark" in drawn
    assert drawn.count("<text") >= 20
    assert re.findall(r"https?://\S+?(?=\")", drawn) == ["http://www.w3.org/2000/svg"]


def test_no_page_asks_another_machine_for_anything(site):
    found = []
    for page in site.rglob("*.html"):
        tags = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", page.read_text("utf-8"))
        found += [(page.name, tag) for tag in tags if re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag)]
    for sheet in site.rglob("*.css"):
        found += [(sheet.name, one) for one in re.findall(r"url\((?:https?:)?//[^)]*\)", sheet.read_text("utf-8"))]
    assert not found


def test_every_public_name_is_on_the_page_for_python(site):
    import plankwise

    text = re.sub(r"<[^>]+>", "", (site / "api.html").read_text("utf-8"))
    assert not [name for name in plankwise.__all__ if f"plankwise.{name}" not in text]


def test_no_marker_is_left_on_a_page(site):
    assert not [page.name for page in site.rglob("*.html") if "generated:" in page.read_text("utf-8")]


def test_every_key_of_every_section_is_on_the_page_of_keys(reference):
    from plankwise.config import RunConfig

    sections = RunConfig().model_dump(exclude={"task", "method"})
    keys = [key for section, tree in sections.items() for key in flatten(tree, section)]
    text = reference.config_reference()
    assert len(keys) > 40
    assert not [key for key in keys if f"| `{key}` |" not in text]


def part_of(text: str, title: str) -> str:
    """What stands under one heading."""
    parts = re.split(r"^## ", text, flags=re.MULTILINE)
    (own,) = [part for part in parts if part.split("\n")[0] == title]
    return own


@pytest.mark.parametrize(("folder", "section"), [("tasks", "task"), ("methods", "method")])
def test_every_key_of_every_kind_is_on_the_page_of_keys(folder, section, reference):
    from plankwise.kinds import load_kind

    text = reference.config_reference()
    for name in files_of(folder):
        own = part_of(text, f'{section}.name = "{name}"')
        for key, field in load_kind(folder, name, key=folder).Options.model_fields.items():
            row = next(line for line in own.splitlines() if line.startswith(f"| `{section}.{key}` |"))
            assert " ".join((field.description or "").split()).replace("|", "\\|") in row


def test_every_schedule_is_on_the_page_of_keys_with_its_keys(reference):
    from plankwise.core.schedule import SCHEDULES, describe_schedule

    text = reference.config_reference()
    for kind, schedule in SCHEDULES.items():
        own = part_of(text, f'method.schedule.kind = "{kind}"')
        assert not [key for key in describe_schedule(schedule()) if f"`method.schedule.{key}`" not in own]


def test_the_page_of_keys_knows_nothing_of_plug_ins_that_happen_to_be_installed(reference, monkeypatch):
    from plankwise import kinds

    listed = kinds.list_kinds
    monkeypatch.setattr(
        reference, "list_kinds", lambda folder: [*listed(folder), *(["layers2"] if folder == "parts" else [])]
    )
    monkeypatch.setattr(reference, "own_kinds", lambda folder: dict.fromkeys(files_of(folder)))
    keys = [reference.Key("plan.part", "layers", "layers | layers2", "kind of successor")]
    assert "| `plan.part` | layers |" in reference._table(keys)


def test_every_command_is_on_its_page_with_its_options(reference):
    text = reference.command_line()
    assert not [name for name in files_of("cli") if f"## plankwise {name}\n" not in text]
    assert "| `--batch-sizes` |" in text


def test_every_method_has_a_page_with_its_own_options():
    for name in files_of("methods"):
        text = (DOCS / "methods" / f"{name}.md").read_text("utf-8")
        assert f"<!-- generated: method {name} -->" in text
        for heading in ("Formula", "Options", "Where we depart", "When it is good", "Published figures", "Traps"):
            assert f"\n## {heading}\n" in text, name


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_files_hold_in_the_repository_too(path):
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)#\s]+)", text)
    assert not [link for link in links if "://" not in link and not (path.parent / link).exists()]


def sentences_in_the_code() -> str:
    """All literal text of the package; where a value is filled in, there is a gap."""
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                pieces = [str(one.value) if isinstance(one, ast.Constant) else "\0" for one in node.values]
                found.append("".join(pieces))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def test_the_messages_that_are_explained_are_those_of_the_code():
    text = " ".join((DOCS / "troubleshooting.md").read_text("utf-8").split())
    messages = re.findall(r"\*\*`([^`]+)`\*\*", text)
    assert len(messages) > 30
    told = sentences_in_the_code()
    for message in messages:
        pieces = [piece.strip(" :;,.?()[]'\"") for piece in message.split("…")]
        assert max(map(len, pieces)) >= 12, message
        assert not [piece for piece in pieces if piece not in told], message
