"""The page: one self-contained HTML file from one record, from several, or from a comparison's or study's table."""

import base64
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from plankwise.errors import RunError
from plankwise.files import write_text
from plankwise.record import FILE, explain_damage, read_record, read_run_record
from plankwise.report._html import fold
from plankwise.report.comparison import read_results, show_results
from plankwise.report.runs import show_runs
from plankwise.report.sections import headline, run_sections
from plankwise.report.text import esc

TABLE = "table.json"
MAX_BYTES = 6_000_000
LESSER = ((500, True), (100, True), (25, True), (0, True), (0, False))  # flips a run, and whether its charts are drawn


@dataclass(frozen=True)
class PageInput:
    """A record or a table that a page is made of; `name` tells it from the others."""

    name: str
    path: Path
    data: dict

    @property
    def is_run(self) -> bool:
        return self.path.name != TABLE


def read_inputs(paths: list[Path]) -> list[PageInput]:
    """The runs, comparisons and studies at the paths; a folder of runs means all of them.

    Raises:
        RunError: there is nothing to report on, or it cannot be read.
    """
    found = [file for path in paths for file in _files_at(path)]
    if not found:
        raise RunError("no run is given; give the folders of one or more finished runs")
    inputs = [PageInput("", file, _read(file)) for file in dict.fromkeys(found)]
    names = [_name(given) for given in inputs]
    return [
        PageInput(name if names.count(name) == 1 else str(given.path.parent), given.path, given.data)
        for name, given in zip(names, inputs, strict=True)
    ]


def write_report(paths: list[Path], out: Path) -> Path:
    """Writes the page on these runs to `out`; gives `out`.

    Raises:
        RunError: a run has no record, its record is damaged, or `out` cannot be written.
    """
    write_text(out, make_page(read_inputs(paths)))
    return out


def make_page(inputs: list[PageInput]) -> str:
    """The page as text, below MAX_BYTES: where all of it would be more, fewer flips and then fewer charts are shown.

    Raises:
        RunError: a record or table is damaged.
    """
    for most_flips, drawings in LESSER:
        page = _assemble(inputs, most_flips, drawings)
        if len(page.encode("utf-8")) < MAX_BYTES:
            return page
    raise RunError(f"a page on {len(inputs)} runs is larger than {MAX_BYTES // 10**6} MB; report on fewer at once")


def _files_at(path: Path) -> list[Path]:
    """The records and tables that a path means."""
    if path.is_file():
        return [path]
    for name in (FILE, TABLE):
        if (path / name).is_file():
            return [path / name]
    runs = sorted(path.glob(f"*/{FILE}"))
    if not runs:
        read_record(path)
    return runs


def _read(file: Path) -> dict:
    if file.name == TABLE:
        return read_results(file)
    if file.name != FILE:
        raise RunError(f"{file} is not a record; give the folder of a finished run, which has a {FILE}")
    return read_run_record(file.parent)


def _name(given: PageInput) -> str:
    if not given.is_run:
        return given.path.parent.name or TABLE
    named = given.data.get("config", {}).get("run", {}).get("name")
    return str(named or given.path.parent.resolve().name)


def _assemble(inputs: list[PageInput], most_flips: int, drawings: bool) -> str:
    runs = [given for given in inputs if given.is_run]
    alone = len(inputs) == 1
    shown = []
    if runs and not alone:
        with explain_damage(runs[0].path):
            shown.append(show_runs([(given.name, given.data) for given in runs]))
    for given in inputs:
        if not given.is_run:
            with explain_damage(given.path):
                shown.append(show_results(given.data))
    for index, given in enumerate(runs):
        with explain_damage(given.path):
            key = "run" if alone else f"run{index}"
            inside = headline(given.data) + run_sections(given.data, key, most_flips=most_flips, drawings=drawings)
            shown.append(inside if alone else f'<article class="run">{fold(given.name, inside)}</article>')
    title = inputs[0].name if alone else f"{len(inputs)} runs compared"
    return _wrap(title, "".join(shown) + _left_out(most_flips, drawings))


def _left_out(most_flips: int, drawings: bool) -> str:
    if (most_flips, drawings) == LESSER[0]:
        return ""
    told = f"at most {most_flips} flips a run are listed" if most_flips else "no flips are listed"
    charts = "" if drawings else " and no charts drawn"
    return (
        f'<p class="note">To stay below {MAX_BYTES // 10**6} MB, {told}{charts}; report on fewer runs to see all.</p>'
    )


def _wrap(title: str, body: str) -> str:
    style, script = (files("plankwise.report").joinpath(name).read_text("utf-8") for name in ("style.css", "script.js"))
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f'<link rel="icon" href="data:,"><title>plankwise: {esc(title)}</title><style>{style}</style></head><body>'
        f'<header><h1>{esc(title)}</h1><button type="button" id="theme">dark</button></header>'
        f"<main>{body}</main><footer>made by plankwise</footer>"
        f'<div id="tip" role="status" hidden></div><script>{script}</script></body></html>\n'
    )


def _hash(text: str) -> str:
    """How a content security policy names a script or a style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
