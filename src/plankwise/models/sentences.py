"""Sentence encoders: an encoder whose tokens' states are pooled into one vector a text.

A folder of sentence-transformers says in its files how: `modules.json` names the modules (Transformer, Pooling, Normalize), a
folder each has its config, `config_sentence_transformers.json` has the prompts, `sentence_bert_config.json` the length that texts
are cut to. They are read here, and written beside a successor as they were, so that `SentenceTransformer(folder)` loads it; the
package itself is not needed. A plain encoder gets such files.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import AutoModel
from transformers.utils import ModelOutput, cached_file

from plankwise.errors import ConfigError
from plankwise.models.loading import Loader, resolve

MODULES, PROMPTS, LENGTHS = "modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"
POOLING_FOLDER = "1_Pooling"
KNOWN = ("Transformer", "Pooling", "Normalize")
# Pooling modes, and the keys that say them in folders of sentence-transformers before 6, in the order in which vectors are joined.
OLD_KEYS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
POOLINGS = tuple(OLD_KEYS)
VECTORS = "sentence_embedding"  # among the outputs


def pool(states: torch.Tensor, mask: torch.Tensor, mode: str) -> torch.Tensor:
    """One vector a text (B, D) from the states of its tokens (B, T, D); `mask` (B, T) is 0 for padding, on either side."""
    weights = mask.unsqueeze(-1).to(states.dtype)
    if mode in ("cls", "lasttoken"):
        place = mask.int().argmax(1) if mode == "cls" else mask.shape[1] - 1 - mask.flip(1).int().argmax(1)
        return states.gather(1, place[:, None, None].expand(-1, 1, states.shape[-1])).squeeze(1)
    if mode == "max":
        return states.masked_fill(weights == 0, torch.finfo(states.dtype).min).max(1).values
    if mode == "weightedmean":  # the first token counts once, the second twice, and so on
        weights = weights * mask.cumsum(1).unsqueeze(-1).to(states.dtype)
    total, counts = (states * weights).sum(1), weights.sum(1).clamp_min(1e-9)
    return total / (counts.sqrt() if mode == "mean_sqrt_len_tokens" else counts)


@dataclass(frozen=True)
class SentenceFiles:
    """What a folder says of how vectors are made, and the files that say it."""

    pooling: tuple[str, ...] = ("mean",)  # of several, the vectors are joined
    normalise: bool = False
    max_length: int | None = None
    prompts: dict[str, str] = field(default_factory=dict)  # what stands before a text, by name
    default_prompt: str | None = None
    lower: bool = False  # texts are written in small letters before they are encoded
    texts: dict[str, str] = field(default_factory=dict)  # the files, by their place in the folder

    @property
    def prompt(self) -> str:
        """What stands before a text of no particular kind."""
        return self.prompt_for(self.default_prompt) if self.default_prompt else ""

    def prompt_for(self, *names: str) -> str:
        """The first prompt of these names; the usual one if there is none."""
        found = [self.prompts[name] for name in names if self.prompts.get(name)]
        return found[0] if found else self.prompts.get(self.default_prompt or "", "")

    def length(self, tokenizer: Any, otherwise: int) -> int:
        """The tokens that whoever uses the model cuts texts to: what its files say, or else its tokenizer."""
        limit = tokenizer.model_max_length
        return self.max_length or (limit if limit < 10**6 else otherwise)

    def write(self, folder: Path) -> None:
        for name, text in self.texts.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")


def read_sentence_files(path: str) -> SentenceFiles | None:
    """What the folder, or hub name, of a sentence-transformers model says; None if it is not one.

    Raises:
        ConfigError: a file cannot be read, or the model has modules whose weights would be lost.
    """
    texts: dict[str, str] = {}
    modules = read_beside(path, MODULES, texts)
    if modules is None:
        return None
    places = {str(one["type"]).rpartition(".")[2]: str(one.get("path") or "") for one in modules}
    if list(places) != list(KNOWN)[: len(modules)] or len(modules) < 2 or places["Transformer"]:
        raise ConfigError(
            f"{path} is made of {', '.join(str(one['type']).rpartition('.')[2] for one in modules)} ({MODULES}); what can be "
            "compressed is a Transformer at the folder's top, then Pooling, then Normalize or nothing: give such a model"
        )
    pooling = read_beside(path, f"{places['Pooling']}/config.json", texts) or {}
    if "Normalize" in places:
        read_beside(path, f"{places['Normalize']}/config.json", texts)
    prompts, lengths = read_beside(path, PROMPTS, texts) or {}, read_beside(path, LENGTHS, texts) or {}
    named = {name: text for name, text in (prompts.get("prompts") or {}).items() if text}
    if named and pooling.get("include_prompt") is False:
        raise ConfigError(
            f"{path} leaves its prompts out when it pools (include_prompt), which is not offered here; give a model that does not"
        )
    return SentenceFiles(
        pooling=_read_modes(pooling, path),
        normalise="Normalize" in places,
        max_length=lengths.get("max_seq_length"),
        prompts=named,
        default_prompt=prompts.get("default_prompt_name"),
        lower=bool(lengths.get("do_lower_case")),
        texts=texts,
    )


def plain_sentence_files(pooling: str, width: int) -> SentenceFiles:
    """The files of an encoder that has none; in the form that every version of sentence-transformers reads."""
    modules = [
        {"idx": number, "name": str(number), "path": place, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, place) in enumerate({"Transformer": "", "Pooling": POOLING_FOLDER}.items())
    ]
    modes = {key: mode == pooling for mode, key in OLD_KEYS.items()}
    texts = {
        MODULES: json.dumps(modules, indent=2),
        f"{POOLING_FOLDER}/config.json": json.dumps({"word_embedding_dimension": width, **modes}, indent=2),
    }
    return SentenceFiles((pooling,), texts=texts)


def read_beside(path: str, name: str, texts: dict[str, str]) -> Any:
    """A JSON file of a model, noted in `texts`; None if the model has no such file."""
    try:
        found = cached_file(resolve(path), name)
    except OSError:
        return None
    if found is None or not Path(found).is_file():
        return None
    try:
        texts[name] = Path(found).read_text("utf-8")
        return json.loads(texts[name])
    except (OSError, ValueError) as error:
        raise ConfigError(f"{name} of {path} cannot be read ({error}); give a folder that was saved whole") from None


def _read_modes(config: dict[str, Any], path: str) -> tuple[str, ...]:
    given = config.get("pooling_mode")
    old = tuple(mode for mode, key in OLD_KEYS.items() if config.get(key))
    modes = old if given is None else (given,) if isinstance(given, str) else tuple(given)
    for mode in modes:
        if mode not in POOLINGS:
            raise ConfigError(
                f"{path} pools by {mode!r}; what is known here is {', '.join(POOLINGS)}: give another model"
            )
    return modes or ("mean",)


def prepare(texts: Sequence[str], prompt: str, *, lower: bool) -> list[str]:
    """Texts as the tokenizer is given them."""
    return [f"{prompt}{text}".lower() if lower else f"{prompt}{text}" for text in texts]


@dataclass
class SentenceOutput(ModelOutput):
    """What a sentence encoder gives."""

    loss: torch.Tensor | None = None
    sentence_embedding: torch.Tensor | None = None  # (B, D)


class SentenceEncoder(nn.Module):
    """An encoder with its pooling: texts in, one vector each out.

    With a `target` (B, D) it gives the mean distance from that, too: 1 − cosine, or with `squared` the squared distance.
    """

    def __init__(self, model: Any, files: SentenceFiles, *, squared: bool = False) -> None:
        super().__init__()
        self.model = model
        self.files = files
        self.squared = squared

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def max_length(self) -> int | None:
        """The tokens that texts are cut to, if its files say."""
        return self.files.max_length

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        target: torch.Tensor | None = None,
    ) -> SentenceOutput:
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        more = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        states = self.model(input_ids=input_ids, attention_mask=mask, **more).last_hidden_state
        vectors = torch.cat([pool(states, mask, mode) for mode in self.files.pooling], -1)
        if self.files.normalise:
            vectors = functional.normalize(vectors, dim=-1)
        return SentenceOutput(None if target is None else self.distance(vectors, target), vectors)

    def distance(self, vectors: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The mean over texts of how far the vectors (B, D) are from the target's."""
        if self.squared:
            return (vectors - target).square().sum(-1).mean()
        return (1 - functional.cosine_similarity(vectors, target, dim=-1)).mean()

    def save_pretrained(self, folder: Any, **options: Any) -> None:
        """Writes the encoder as any encoder is written, and beside it what says how its states are pooled."""
        self.model.save_pretrained(folder, **options)
        self.files.write(Path(folder))


def load_sentence_encoder(
    loader: Loader, path: str, *, pooling: str | None = None, squared: bool = False
) -> SentenceEncoder:
    """The sentence encoder at `path`; a plain encoder's states are pooled by `pooling`, their mean if that is None.

    Weights of an encoder's own pooler may be missing: it is not used.

    Raises:
        ConfigError: nothing can be loaded from there, or its files say another pooling.
    """
    files = read_sentence_files(path)
    if files is not None and pooling is not None and files.pooling != (pooling,):
        raise ConfigError(
            f"task.pooling is {pooling!r}, but {path} says that it pools by {' and '.join(files.pooling)}; take task.pooling out"
        )
    model = loader.model(path, AutoModel, new_head=True).model
    if files is None:
        files = plain_sentence_files(pooling or "mean", model.config.get_text_config().hidden_size)
    return SentenceEncoder(model, files, squared=squared)


def load_as_saved(loader: Loader, path: str) -> Any:
    """The model as it was saved, in eval mode; of a sentence-transformers folder the sentence encoder.

    Raises:
        ConfigError: nothing can be loaded from there, or weights are missing.
    """
    if read_sentence_files(path) is None:
        return loader.trained(path)
    return load_sentence_encoder(loader, path).eval()
