"""What a run prints, kept in its folder as log.txt: plain text, the time before each line, appended when the run goes on.

A log that cannot be written is given up; it never stops a run.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from rich.console import Console, ConsoleRenderable, RenderHook

LOG = "log.txt"
WIDTH = 1000  # so that no line is broken


class RunLog(RenderHook):
    """Hears what a console prints, even a quiet one; writes it once `begin` says that the folder is the run's own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG
        self._text = io.StringIO()
        self._plain = Console(file=self._text, width=WIDTH, markup=False, emoji=False, color_system=None)
        self._waiting: list[str] = []
        self._writes = False

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """What `rich` calls with all that is printed, before it is drawn."""
        self._plain.print(*renderables, sep="\n")
        self.note(self._text.getvalue())
        self._text.seek(0)
        self._text.truncate()
        return renderables

    def note(self, text: str) -> None:
        """Adds lines that are not printed."""
        now = f"{datetime.now():%Y-%m-%d %H:%M:%S}"
        self._waiting += [f"{now}  {line.rstrip()}\n" for line in text.splitlines() if line.strip()]
        if self._writes:
            self._write()

    def begin(self) -> None:
        """From now on lines are written, those that came before first."""
        self._writes = True
        self._write()

    def _write(self) -> None:
        lines, self._waiting = self._waiting, []
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(lines)
        except OSError:
            self._writes = False


@contextmanager
def logged(console: Console, folder: Path) -> Iterator[None]:
    """Inside, what is printed is added to the log of the run in `folder`, if it has one."""
    log = RunLog(folder)
    if log.path.is_file():
        log.begin()
    console.push_render_hook(log)
    try:
        yield
    finally:
        console.pop_render_hook()
