"""What a shell offers while a command is typed: recipes, keys, names of kinds."""

from pathlib import Path

from plankwise.kinds import list_kinds


def complete_recipes(incomplete: str) -> list[str]:
    """TOML files and folders; keys, once what is typed begins like one."""
    folder = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    names = [f"{path}/" if path.is_dir() else str(path) for path in found if path.is_dir() or path.suffix == ".toml"]
    return [name for name in names if name.startswith(incomplete)] or complete_keys(incomplete)


def complete_keys(incomplete: str) -> list[str]:
    """Keys of the sections that every recipe has, and of the usual task and method, each with its `=`."""
    from plankwise.config import DEFAULT_KINDS, RunConfig
    from plankwise.kinds import load_kind
    from plankwise.options import walk

    sections = {
        section: lambda section=section, name=name: load_kind(f"{section}s", name, key=section).Options
        for section, name in DEFAULT_KINDS.items()
    }
    keys = [key for key, _ in walk(RunConfig, sections=sections) if "." in key]
    return [f"{key}=" for key in keys if key.startswith(incomplete)]


def complete_studies(incomplete: str) -> list[str]:
    return [name for name in list_kinds("studies") if name.startswith(incomplete)]
