"""How often a regular expression matches in each of many texts, in a process of its own that is ended when it takes too long.

Some expressions, such as `(a+)+$`, take time that doubles with each letter of a text that they do not fit, and Python's matcher
can be stopped from outside of its process alone: a limit there is sound on every system and in every thread, and needs no rule
about which expressions look harmless. The process loads nothing but `re` and starts in some hundredths of a second.
"""

import json
import subprocess
import sys

from plankwise.errors import ConfigError, shorten
from plankwise.options import MOST_GIVEN

SECONDS = 60.0  # for all texts of one expression
PROGRAM = """
import json, re, sys
pattern, texts = json.load(sys.stdin)
find = re.compile(pattern).finditer
json.dump([sum(1 for _ in find(text)) for text in texts], sys.stdout)
"""


def count_matches(pattern: str, texts: list[str], name: str, seconds: float | None = None) -> list[int]:
    """The matches in each text; `name` is the rule's, `seconds` the limit if not the usual one.

    Raises:
        ConfigError: it takes too long.
    """
    limit = SECONDS if seconds is None else seconds
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", PROGRAM],
            input=json.dumps([pattern, texts]),
            capture_output=True,
            text=True,
            timeout=limit,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"analysis.rules: the pattern of {name!r}, {shorten(repr(pattern), MOST_GIVEN)}, takes more than {limit:g} s on "
            f"{len(texts)} texts; write it without a repetition inside a repetition, such as (a+)+ or (a|a)*"
        ) from None
    return json.loads(done.stdout)
