"""How a user says that files are written: what separates columns, how characters are written, whether quotes enclose fields."""

import codecs
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from plankwise.errors import ConfigError

NOT_FOR_FILES = ("idna", "punycode", "raw_unicode_escape", "unicode_escape", "raw-unicode-escape", "unicode-escape")


def read_separator(value: str | None, key: str) -> str | None:
    """The character between columns that was asked for under `key`; `\\t` may be written out.

    Raises:
        ConfigError: more than a character, or one that cannot separate.
    """
    value = "\t" if value == "\\t" else value
    if value is not None and (len(value) != 1 or not value.isascii() or value in '"\r\n'):
        raise ConfigError(f'{key} is {value!r}; give one ASCII character such as , ; | or "\\t"')
    return value


def read_encoding(value: str, key: str) -> str:
    """The encoding that was asked for under `key`.

    Raises:
        ConfigError: Python does not know it, or knows it for something else than files.
    """
    advice = "try utf-8, utf-16, latin-1 or cp1252"
    try:
        name = codecs.lookup(value).name
        "".encode(value)
    except (LookupError, UnicodeError, ValueError):
        raise ConfigError(f"{key} is {value!r}; Python has no such encoding: {advice}") from None
    if name in NOT_FOR_FILES:
        raise ConfigError(f"{key} is {value!r}, which is not what files are written in: {advice}")
    return value


def read_quoting(value: Any) -> Any:
    """Whether double quotes enclose fields; how other programs name it, 'double' and 'none', will do, too."""
    return {"double": True, "none": False}.get(value, value) if isinstance(value, str) else value


# The keys of a task.
Separator = Annotated[str | None, AfterValidator(lambda value: read_separator(value, "task.separator"))]
Encoding = Annotated[str, AfterValidator(lambda value: read_encoding(value, "task.encoding"))]
Quoting = Annotated[bool, BeforeValidator(read_quoting)]
