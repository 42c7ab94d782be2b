"""How kinds of task encode tables of texts: with a bar while it lasts, and a line on what was cut."""

from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.progress import Progress

from plankwise.data.encode import Encoded, encode


def encode_table(
    name: str, table: pa.Table, tokenizer: Any, max_length: int, console: Console, *, own: bool = False
) -> Encoded:
    """The table's texts (and pairs) as token ids; `own`: by a tokenizer that a model has for itself."""
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"{name}: tokens", total=table.num_rows)
        encoded = encode(table, tokenizer, max_length, progress=lambda rows: bar.advance(task, rows))
    tell_encoded(name, encoded, max_length, console, f", {len(tokenizer)} tokens of a model's own" if own else "")
    return encoded


def tell_encoded(name: str, encoded: Encoded, max_length: int, console: Console, more: str = "") -> None:
    """Says how many examples there are, and how many of them lost their end."""
    cut = f", {encoded.num_cut} longer than {max_length} tokens and cut" if encoded.num_cut else ""
    console.print(f"{name}: {len(encoded.lengths)} examples{cut}{more}")
