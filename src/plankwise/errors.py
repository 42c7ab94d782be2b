"""Every error a user can fix: the message is one sentence that says what, where and how."""

MOST = 4_000  # characters of a message; what is given may be a whole file


def shorten(text: str, most: int = MOST) -> str:
    """The text, its middle left out if it is too long to be read: a message begins with what is wrong and ends with what to do."""
    if len(text) <= most:
        return text
    return f"{text[: most * 3 // 4]} … {len(text) - most:,} characters left out … {text[-(most // 4) :]}"


class PlankwiseError(Exception):
    """The command line prints these without a traceback and exits with `exit_code`."""

    exit_code = 2
    told_by_rank_0 = False  # it was raised there, and is raised here because of that

    def __init__(self, message: str = "") -> None:
        # Half of a character, which is in what was given, cannot be printed or logged.
        super().__init__(shorten(str(message).encode("utf-8", "backslashreplace").decode("utf-8")))


class ConfigError(PlankwiseError, ValueError):
    """A key or value in a recipe, an override or an argument; a ValueError so that pydantic gathers it."""


class PlanError(PlankwiseError, ValueError):
    """The plan does not fit the model."""


class DataError(PlankwiseError, ValueError):
    """The data cannot be used as they are."""


class RunError(PlankwiseError):
    """A run cannot start, go on, or be trusted: its folder, its predecessor, its loss, its disk."""


class MissingExtraError(PlankwiseError):
    """A package is needed that the base install leaves out."""

    def __init__(self, action: str, package: str, extra: str) -> None:
        super().__init__(f"{action} needs the package {package}; install it with: pip install plankwise[{extra}]")
