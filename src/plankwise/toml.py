"""Recipes as text: TOML that is read, `key=value` that goes before it, and data as TOML can have them."""

import tomllib
from pathlib import Path
from typing import Any

from plankwise.errors import ConfigError


def read_toml(path: Path) -> dict[str, Any]:
    """The sections of a recipe.

    Raises:
        ConfigError: it is not a TOML file.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise ConfigError(f"recipe {path} {what}; give a TOML file, for example one of the folder recipes/")
    try:
        return parse_toml(path.read_text("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"recipe {path} is not utf-8 at byte {error.start}, and TOML must be; save it as utf-8"
        ) from None
    except OSError as error:
        raise ConfigError(f"recipe {path} cannot be read ({error.strerror}); check its permissions") from None
    except ValueError as error:
        raise ConfigError(
            f"recipe {path} is not TOML: {error}; write sections like [plan] and lines like key = value"
        ) from None


def parse_toml(text: str) -> dict[str, Any]:
    """The sections of a TOML text.

    Raises:
        ValueError: it is not TOML, nested too deeply, or has a number with too many digits.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # Python's limit on the digits of a number
        raise ValueError(str(error).partition(";")[0]) from None


def apply_override(data: dict, override: str) -> None:
    """Sets the key of `key=value` in nested data.

    Raises:
        ConfigError: it is not of that form, or the key lies in something that is not a section.
    """
    key, separator, text = override.partition("=")
    if not separator or not key:
        raise ConfigError(f"override {override!r} is not of the form key=value, for example plan.successors=4")
    *parents, last = key.split(".")
    for index, parent in enumerate(parents):
        data = data.setdefault(parent, {})
        if not isinstance(data, dict):
            holder = ".".join(parents[: index + 1])
            raise ConfigError(f"override {override!r}: {holder} holds a value, not a section; set {holder}=… instead")
    try:
        data[last] = parse_toml(f"value = {text}")["value"]
    except ValueError:
        data[last] = text


def without_none(value: Any) -> Any:
    """Nested data without the keys that have no value, as TOML has it."""
    if isinstance(value, dict):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_none(item) for item in value]
    return value
