"""Folders that `plankwise export` wrote: what they say of themselves in export.json."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from plankwise.errors import ConfigError

FILE = "export.json"


@dataclass(frozen=True)
class Exported:
    """What opens an exported model, and what was said and found when it was made."""

    format: str
    runtime: str  # what opens it
    precision: str  # fp32, fp16 or int8
    quantise: str | None  # dynamic or static; None if it is not int8
    safe_range: bool  # 7 bits where 8 would overflow on CPUs without VNNI
    files: tuple[str, ...]  # of the model, those that are opened first, in their order
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    labels: tuple[str, ...]  # names of classes, if it gives classes
    max_length: int  # of tokens that predict.py cuts texts to
    token_limit: int | None  # that the model takes at most
    padding: dict[str, Any]  # as `tokenizers` takes it
    truncation: str  # the side at which texts are cut
    mask_token_id: int | None
    prompt: str = ""  # that predict.py puts before each text
    lower: bool = False  # whether it writes texts in small letters
    usage: str = '"a text" "another one"'  # what it is given
    # Of a model with early exits, which is a chain of graphs: their number, patience and tolerance, and the tensors that later
    # graphs are given beside the state, with whether each has a row for each text.
    exits: dict[str, Any] | None = None
    check: dict[str, Any] | None = None  # what --check found

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    @property
    def graphs(self) -> tuple[str, ...]:
        """The files that are opened."""
        return self.files[: 1 if self.exits is None else self.exits["blocks"]]

    @property
    def is_checkpoint(self) -> bool:
        """Whether torch can load it."""
        return any(name.endswith(".safetensors") for name in self.files)

    def size_mb(self, folder: Path) -> float:
        """What the model's files take on disk, in millions of bytes."""
        return sum((folder / name).stat().st_size for name in self.files) / 1e6


def read_exported(path: str) -> Exported | None:
    """What was exported to the folder `path`; None if that is anything else.

    Raises:
        ConfigError: its export.json cannot be read.
    """
    file = Path(path).expanduser() / FILE
    if not file.is_file():
        return None
    try:
        data: dict[str, Any] = json.loads(file.read_text("utf-8"))
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        known = {field.name for field in fields(Exported)}
        return Exported(**{name: given[name] for name in known & given.keys()})
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{file} cannot be read ({error}), so what was exported there is not known; export it again"
        ) from None
