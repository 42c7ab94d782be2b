"""Hybrids on disk: what a training saves of a hybrid says that it is one.

A hybrid is saved by `save_pretrained`, which is what a Trainer calls, under the names that its weights have, so that a training
resumes from it. Its `config.json` has a `model_type` of its own:

    {"model_type": "plankwise-hybrid", "family": "bert", "plan": [{"path": …, "span": …, "part": …, "options": …}],
     "num_hidden_layers": "(this is a hybrid …)", "kept": {"num_hidden_layers": 12}, …the predecessor's own keys}

Plain transformers knows no such model type; the family's own classes, which would load it with random weights, refuse the words in
place of a number; where plankwise is imported, the Auto classes refuse with a sentence. `plankwise.load` gives the successor.
"""

from collections.abc import Iterator
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from plankwise.core.plan import Plan
from plankwise.models.planned_config import HybridConfig


class SavedAsHybrid:
    """Given to the class of a Hugging Face model in which slots stand: its `save_pretrained` says so."""

    plan: Any  # the slots of this model
    original: Any = None  # the class before, of a model inside a wrapper

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
        model: Any = self
        config = model.config
        model.config = HybridConfig.pack(config, self.plan.to_json())
        # Names that weights had in an older format would not be found when a training resumes.
        options = {"save_original_format": False, **kwargs}
        try:
            return super().save_pretrained(save_directory, *args, **options)  # type: ignore[misc]
        finally:
            model.config = config


def outermost_models(model: nn.Module, path: str = "") -> Iterator[tuple[str, PreTrainedModel]]:
    """The Hugging Face models in a module, each with its path; those inside one of them are left out."""
    if isinstance(model, PreTrainedModel):
        yield path, model
        return
    for name, child in model.named_children():
        yield from outermost_models(child, f"{path}.{name}" if path else name)


def label_inside(wrapper: nn.Module, plan: Plan) -> None:
    """Lets each Hugging Face model inside a wrapper, if slots of the plan stand in it, be saved as a hybrid."""
    for path, model in outermost_models(wrapper):
        own = plan.inside(path)
        if path and own.slots:
            kind = type(model)
            members = {"plan": own, "original": kind, "__module__": kind.__module__, "__doc__": kind.__doc__}
            model.__class__ = type(kind.__name__, (SavedAsHybrid, kind), members)


def unlabel_inside(wrapper: nn.Module) -> None:
    """Gives the models inside a wrapper the classes back that they had before `label_inside`."""
    for _, model in outermost_models(wrapper):
        if isinstance(model, SavedAsHybrid) and model.original is not None:
            model.__class__ = model.original
