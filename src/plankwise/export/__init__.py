"""Trained models written for another runtime, one file per format; `plankwise export --to onnx` is `export/onnx.py`.

A file offers:

    PRECISIONS              those that it offers, of fp32, fp16 and int8
    QUANTISES               ways to int8 that it offers, of dynamic and static; the first is the usual one
    RUNTIME                 the runtime (a file of `runtimes/`) that opens its folders
    NEEDS                   the packages that its predict.py imports beside tokenizers and numpy
    script(planned)         lines of that predict.py, which define `run(batch)`: a list of arrays, in the order of
                            `about["outputs"]`, for arrays by name; `planned`: a model that only plankwise can describe
    chain_script()          optional: the same of a model with early exits, for a format that writes it as a chain of graphs
    check_installed()       raises MissingExtraError if a package is missing that writing takes
    write(traced, folder, how)      writes the model's files into the folder, and gives their names, those to open first,
                            in their order: of a chain one for each of `traced.pieces`
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plankwise.errors import ConfigError, MissingExtraError
from plankwise.kinds import load_kind

if TYPE_CHECKING:
    from plankwise.export._traced import Traced
    from plankwise.runtimes import Batch

    Check = Callable[[Path], dict[str, Any]]

PRECISIONS = ("fp32", "fp16", "int8")
DYNAMIC, STATIC = "dynamic", "static"


@dataclass(frozen=True)
class How:
    """In which precision a model is written."""

    precision: str = "fp32"
    quantise: str | None = None  # None if the precision is not int8
    safe_range: bool = False
    calibration: Sequence[Batch] = ()  # what static quantisation sees


def export_model(
    model: Any,
    tokenizer: Any,
    folder: str | Path,
    *,
    format: str = "onnx",
    precision: str = "fp32",
    quantise: str | None = None,
    calibration: Sequence[Batch] = (),
    safe_range: bool | None = None,
    max_length: int | None = None,
    check: Check | None = None,
) -> Path:
    """Writes a Hugging Face model and its tokenizer for a runtime; the folder is written whole or not at all. Gives its path.

    Args:
        quantise: `dynamic`, the usual one, or `static`; for int8 alone.
        calibration: Batches as the model takes them, for static quantisation.
        safe_range: 7 bits for weights, which CPUs without VNNI need; by default what this machine needs.
        max_length: The tokens that predict.py cuts texts to; by default as many as the model takes.
        check: Looks at the finished folder before it gets its name; what it gives is entered in the folder's card, and what it
            raises leaves no folder.

    Raises:
        ConfigError: The format does not offer this, or the tokenizer cannot be used without transformers.
        MissingExtraError: A package is missing.
        RunError: The model cannot be traced, or the folder not written.
    """
    how = choose(format, precision, quantise, safe_range=safe_range)
    if how.quantise == STATIC and not calibration:
        raise ConfigError(
            "quantise is 'static', which needs calibration: some batches of the task's texts; or use dynamic"
        )
    kind: Any = load_kind("export", format, key="format")
    kind.check_installed()
    how = replace(how, calibration=calibration)
    return export_traced(prepare(model, tokenizer), folder, format, how, max_length=max_length, check=check)


def prepare(model: Any, tokenizer: Any) -> Traced:
    """What `export_traced` writes, for any number of precisions; the model itself is left as it is.

    Raises:
        ConfigError: The tokenizer cannot be used without transformers, or the model writes texts with a decoder.
    """
    from plankwise.export._traced import trace

    return trace(model, tokenizer)


def export_traced(
    traced: Traced,
    folder: str | Path,
    format: str,
    how: How,
    *,
    max_length: int | None = None,
    check: Check | None = None,
) -> Path:
    """As `export_model`, of a model that was prepared for writing, perhaps in several precisions one after the other."""
    from plankwise.export._folder import describe, write_texts
    from plankwise.files import whole_folder

    kind: Any = load_kind("export", format, key="format")
    with whole_folder(Path(folder)) as part:
        files = kind.write(traced, part, how)
        exported = describe(traced, format, kind, how, files, max_length)
        write_texts(part, exported, traced, kind)
        if check is not None:
            exported = replace(exported, check=check(part))
            write_texts(part, exported, traced, kind)
    return Path(folder)


def choose(format: str, precision: str, quantise: str | None, *, safe_range: bool | None = None) -> How:
    """What is asked for, if the format offers it.

    Raises:
        ConfigError: it does not.
    """
    kind: Any = load_kind("export", format, key="format")
    if precision not in kind.PRECISIONS:
        raise ConfigError(
            f"precision is {precision!r}, which the format {format} does not offer; choose one of {', '.join(kind.PRECISIONS)}"
        )
    if precision != "int8":
        if quantise is not None:
            raise ConfigError(
                f"quantise is {quantise!r}, but the precision is {precision}; leave it out, or choose int8"
            )
        return How(precision)
    if quantise is not None and quantise not in kind.QUANTISES:
        raise ConfigError(f"quantise is {quantise!r}; the format {format} offers {' and '.join(kind.QUANTISES)}")
    from plankwise.export._cpu import has_vnni

    return How(precision, quantise or kind.QUANTISES[0], not has_vnni() if safe_range is None else safe_range)


def check_packages(extra: str, *names: str) -> None:
    """Looks whether packages are installed, without importing them.

    Raises:
        MissingExtraError: one is not.
    """
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(f"export to {extra}", name, extra)
