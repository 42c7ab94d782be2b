"""What a folder offers, by its file names: `part = "layers"` is `parts/layers.py`.

Files that start with `_` are shared helpers, not kinds. Another distribution adds a kind through the entry-point group
`plankwise.FOLDER` (for example `plankwise.parts`), whose entries name modules.
"""

import difflib
import functools
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from plankwise.errors import ConfigError


def list_kinds(folder: str) -> list[str]:
    """The names of all kinds in `folder`, plug-ins included, in alphabetical order."""
    package = importlib.util.find_spec(
        f"plankwise.{folder}"
    )  # found, not imported: what it needs may take seconds to load
    assert package is not None
    places = package.submodule_search_locations
    own = {module.name for module in pkgutil.iter_modules(places) if not module.name.startswith("_")}
    return sorted(own | {entry.name for entry in _plug_ins(folder)})


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


def summary(module: ModuleType) -> str:
    """The first line of a kind's docstring, for listings."""
    return (module.__doc__ or "").strip().split("\n")[0]
