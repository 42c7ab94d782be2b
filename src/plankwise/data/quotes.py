"""Lines against rows: a stray quote takes the lines behind it into one field, which no parser calls an error.

A field between quotes may have several lines, so what is counted here is never refused, but always said.
"""

import itertools
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from plankwise.data.pieces import Piece, open_utf8, records
from plankwise.errors import DataError

COUNTED_BYTES = 1 << 16  # looked at together, so that what numpy makes of them stays small
LOOKED_AT = 1000  # rows of several lines, of which it is said whether stray quotes made them
LOOKED_THROUGH = 1_000_000  # rows in which those are looked for
LINE_END = re.compile(r"[\r\n]+")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LineCount:
    """The lines of a table file, or of pieces of it, and the rows that they became."""

    piece: Piece
    lines: int  # without the header and empty lines
    rows: int
    looked_at: int = 0  # rows of several lines that were looked at
    stray: int = 0  # those of them in which each line looks like a row of its own

    def __add__(self, other: "LineCount") -> "LineCount":
        names = ("lines", "rows", "looked_at", "stray")
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def note(self) -> str | None:
        """What to say of them, as a sentence; None if each line is a row, or if the user cannot change how quotes are read."""
        way = self.piece.layout.key("quoting", off=True)
        if self.lines == self.rows or not way:
            return None
        what = f"{self.piece.path.name}: {self.lines} lines became {self.rows} rows, since quoted fields go on over several lines"
        if self.stray > self.looked_at / 2:
            return f"{what}, and these lines look like rows of their own, joined by stray quotes; set {way}"
        return f"{what}; set {way} if quotes are part of the text"


Tell = Callable[[LineCount], None]


def log(count: LineCount) -> None:
    """Writes the note, if there is one, to the log."""
    if count.note is not None:
        logger.warning("%s", count.note)


class Tally:
    """Counts of pieces, added up by file."""

    def __init__(self) -> None:
        self._counts: dict[Path, LineCount] = {}

    def add(self, count: LineCount) -> None:
        path = count.piece.path
        self._counts[path] = self._counts[path] + count if path in self._counts else count

    @property
    def notes(self) -> tuple[str, ...]:
        """What to say of the files."""
        return tuple(count.note for count in self._counts.values() if count.note is not None)


def count_quotes_and_lines(piece: Piece) -> tuple[int, int]:
    """The double quotes in a piece, and its lines with something on them, header included."""
    quotes = lines = 0
    ended = True
    with open_utf8(piece) as stream:
        while block := stream.read(COUNTED_BYTES):
            quotes += block.count(b'"')
            codes = np.frombuffer(block, np.uint8)
            ends = (codes == ord("\n")) | (codes == ord("\r"))
            lines += int(np.count_nonzero(ends[1:] > ends[:-1])) + int(ends[0] and not ended)
            ended = bool(ends[-1])
    return quotes, lines + int(not ended)


def compare_lines(piece: Piece, lines: int, rows: int, width: int) -> LineCount:
    """The count for a piece, after a look at its rows of several lines if there are any.

    Where a stray quote has joined rows, each of their lines has the separators of a whole row; the lines of a text with line
    breaks rarely do.
    """
    count = LineCount(piece, lines - int(piece.has_header), rows)
    if count.note is None:
        return count
    looked_at = stray = 0
    try:
        for _, fields in itertools.islice(records(piece), LOOKED_THROUGH):
            inside = [line for line in LINE_END.split(piece.separator.join(fields)) if line]
            if len(inside) > 1:
                looked_at += 1
                stray += width > 1 and all(line.count(piece.separator) == width - 1 for line in inside)
            if looked_at == LOOKED_AT:
                break
    except DataError:  # Arrow has read it: the two readers differ on quotes that are written against the rules
        pass
    return replace(count, looked_at=looked_at, stray=stray)
