"""An existing model's folder, written anew with the vocabulary that some texts need."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from plankwise.config import RunConfig
from plankwise.context import open_context, own_device
from plankwise.errors import ConfigError
from plankwise.models.loading import Loader
from plankwise.models.saving import save, saved_size_mb, size_on_disk_mb
from plankwise.models.sentences import load_as_saved
from plankwise.models.vocabulary import trim
from plankwise.run.inputs import read_run
from plankwise.run.vocabulary import TASK, gather_texts


def trim_folder(config: RunConfig, sources: Sequence[str], out: Path, console: Console, *, min_count: int = 1) -> dict:
    """Writes the model at `predecessor.path`, trimmed to the texts of the sources, into `out`; tells what was kept and saved.

    Raises:
        PlankwiseError: the model cannot be loaded or trimmed, the texts cannot be read, or `out` is not an empty place.
    """
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise ConfigError(f"--out is {out}, which exists already; give a new folder, or empty it")
    if min_count < 1:
        raise ConfigError(f"--min-count is {min_count}; give 1 or more")
    path = config.predecessor.path
    context = open_context(console, Path(config.run.folder), config.run.seed)
    task = read_run(config, context).task if TASK in sources else None
    texts = gather_texts(sources, task, "--vocabulary")
    loader = Loader(config.predecessor.remote_code, own_device())
    model, tokenizer = load_as_saved(loader, path), loader.tokenizer(path)
    trimmed = trim(model, tokenizer, texts, min_count=min_count)
    save(trimmed.model, out, trimmed.tokenizer)
    sizes = {"size_mb_before": saved_size_mb(model, path), "size_mb": size_on_disk_mb(out)}
    return {"path": str(out), **trimmed.to_json(), **sizes}
