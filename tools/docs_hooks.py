"""What mkdocs calls while it builds the site: texts from the code, and the documents that lie beside docs/ in the repository."""

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import reference

ROOT = Path(__file__).parent.parent
MARKER = re.compile(r"^<!-- generated: (\w+)(?: (\w+))? -->$", re.MULTILINE)
# Shown as pages below project/, where the links among them hold as they are.
DOCUMENTS = (
    "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "EXPERIMENTS.md", "benchmarks/results.md", "benchmarks/growth.svg",
)  # fmt: skip


def fill_in(markdown: str) -> str:
    """The page with each marker replaced by its text."""
    return MARKER.sub(lambda found: reference.TEXTS[found[1]](*filter(None, [found[2]])), markdown)


def point_inside(markdown: str, page: str) -> str:
    """The page with its links to the repository's documents turned to where the site has them."""
    folder = posixpath.dirname(page)

    def turn(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, found[1]))
        return f"]({posixpath.relpath(f'project/{target}', folder or '.')}" if target in DOCUMENTS else found[0]

    return re.sub(r"\]\(([^)#\s]+)", turn, markdown)


def on_files(files: Files, config: Any) -> Files:
    for name in DOCUMENTS:
        files.append(File.generated(config, f"project/{name}", content=(ROOT / name).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **kwargs: Any) -> str:
    return point_inside(fill_in(markdown), page.file.src_uri)
