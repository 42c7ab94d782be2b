"""Writes a model so that the door reads it back: safetensors, its config (with its plan if it needs one), its tokenizer."""

import functools
import tempfile
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedModel

from plankwise.files import whole_folder
from plankwise.models.loading import knows_words, resolve
from plankwise.models.quiet import quiet


def save(model: Any, folder: Path, tokenizer: Any = None) -> Path:
    """Writes the model's folder, whole or not at all; gives its path.

    Raises:
        RunError: the disk is full, or the place is not for writing.
    """
    with quiet(), whole_folder(folder) as part:
        model.save_pretrained(part)
        if tokenizer is not None:
            tokenizer.save_pretrained(part)
    return folder


def save_beside(model: Any, tokenizer: Any) -> Any:
    """The model, whose `save_pretrained` from now on writes the tokenizer, or processor, into the same folder.

    Its class becomes a subclass of the same name, which is copied and pickled as any model is. A model that is not Hugging Face's,
    or a tokenizer that is None, changes nothing.
    """
    if tokenizer is not None and isinstance(model, PreTrainedModel):
        kind: Any = type(model)
        model.__class__ = _saving_class(kind)
        model._saved_beside = tokenizer
    return model


@functools.cache
def _saving_class(original: Any) -> Any:
    def save_pretrained(self: Any, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
        written = original.save_pretrained(self, save_directory, *args, **kwargs)
        tokenizer = vars(self).get("_saved_beside")  # None: the class was asked for a new model
        if tokenizer is not None and kwargs.get("is_main_process", True):
            hub = {key: kwargs[key] for key in ("push_to_hub", "repo_id", "token") if key in kwargs}
            tokenizer.save_pretrained(save_directory, **hub)
        return written

    def reduce(self: Any, protocol: Any) -> Any:
        return _made_anew, (original,), original.__reduce_ex__(self, protocol)[2]

    members = {"save_pretrained": save_pretrained, "__reduce_ex__": reduce, "__module__": original.__module__}
    return type(original.__name__, (original,), {**members, "__doc__": original.__doc__})


def _made_anew(original: Any) -> Any:
    """What a copy, or a pickle, of such a model begins with."""
    kind = _saving_class(original)
    return kind.__new__(kind)


def find_tokenizer(path: str) -> Any:
    """The tokenizer in a model's folder, or of a hub name if it is on this machine already; None if there is none."""
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(resolve(path), local_files_only=True)
    except Exception:  # whatever a folder lacks: not having a tokenizer is no fault of a model
        return None
    return tokenizer if knows_words(tokenizer) else None


def size_on_disk_mb(folder: Path) -> float:
    """The weights' files in a model's folder, in millions of bytes."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors")) / 1e6


def saved_size_mb(model: Any, path: str) -> float:
    """What the model takes on disk where it stands, or would take if it comes from a hub or in another format."""
    if size := size_on_disk_mb(Path(resolve(path))):
        return size
    with quiet(), tempfile.TemporaryDirectory() as part:
        model.save_pretrained(part)
        return size_on_disk_mb(Path(part))
