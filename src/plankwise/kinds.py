"""What a folder offers, by its file names: `part = "layers"` is `parts/layers.py`.

Files that start with `_` are shared helpers, not kinds. Another distribution adds a kind through the entry-point group
`plankwise.FOLDER` (for example `plankwise.parts`), whose entries name modules.
"""

import ast
import difflib
import functools
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterable
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from plankwise.errors import ConfigError


def list_kinds(folder: str) -> list[str]:
    """The names of all kinds in `folder`, plug-ins included, in alphabetical order."""
    return sorted({*_own(folder), *(entry.name for entry in _plug_ins(folder))})


def load_kind(folder: str, name: object, *, key: str) -> ModuleType:
    """The module of one kind; `key` is the config key that asked for it.

    Raises:
        ConfigError: there is no such kind.
    """
    known = list_kinds(folder)
    if name not in known:
        noun = f"{folder.removesuffix('ies')}y" if folder.endswith("ies") else folder.removesuffix("s")
        raise ConfigError(f"{key} is {name!r}; {no_such(name, known, noun)}")
    for entry in _plug_ins(folder):
        if entry.name == name:
            return entry.load()
    return importlib.import_module(f"plankwise.{folder}.{name}")


def _own(folder: str) -> dict[str, ModuleSpec | None]:
    """The kinds of this project, found without importing their folder: what it needs may take seconds to load."""
    package = importlib.util.find_spec(f"plankwise.{folder}")
    assert package is not None
    files = pkgutil.iter_modules(package.submodule_search_locations)
    return {file.name: file.module_finder.find_spec(file.name, None) for file in files if not file.name.startswith("_")}


def _plug_ins(folder: str) -> tuple[EntryPoint, ...]:
    return _look_up(entry_points, f"plankwise.{folder}", tuple(sys.path))


@functools.cache
def _look_up(find: Callable[..., Iterable[EntryPoint]], group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entries of a group; looked up once for each `path` that Python searches, because it reads every distribution's files."""
    return tuple(find(group=group))


def no_such(name: object, known: Iterable[str], noun: str) -> str:
    """Half a sentence for an unknown name: the nearest known one, then all of them."""
    known = sorted(known)
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    return f"there is no such {noun}.{guess} Known: {', '.join(known) or 'none'}"


def summary(folder: str, name: str) -> str:
    """The first line of a kind's docstring, for listings; read from its source, because loading it may take seconds."""
    entry = next((entry for entry in _plug_ins(folder) if entry.name == name), None)
    spec = _own(folder)[name] if entry is None else importlib.util.find_spec(entry.module)
    source = spec.loader.get_source(spec.name) if spec is not None and isinstance(spec.loader, InspectLoader) else None
    text = load_kind(folder, name, key="name").__doc__ if source is None else ast.get_docstring(ast.parse(source))
    return (text or "").strip().split("\n")[0]
