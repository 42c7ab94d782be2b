"""Configs of what a family's config does not describe, hybrids too; light, so that they can be registered early."""

import copy
from typing import Any

from transformers.configuration_utils import PreTrainedConfig

from plankwise.errors import ConfigError, PlanError
from plankwise.models.quiet import quiet

MODEL_TYPE = "plankwise"
# A family's own class, asked for by name, would load such a checkpoint with a warning, and with random weights where a part has
# others. So config.json has this in place of the weights' dtype, which every config class of transformers looks up in torch: the
# lookup fails with these words in its message.
REFUSAL = "(this model has parts of plankwise: import plankwise and load it by plankwise.load or an Auto class)"
REFUSING_KEY, KEPT_KEY = "dtype", "weights_dtype"

HYBRID_TYPE = "plankwise-hybrid"
HYBRID_REFUSAL = "(this is a hybrid of plankwise, saved while it was trained: plankwise.load gives its successor)"
HYBRID_KEPT_KEY = "kept"  # the family's own values of the keys that refuse


class PlannedConfig(PreTrainedConfig):
    """A family's config and a plan; every instance is of a subclass that is the family's config class too."""

    model_type = MODEL_TYPE

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        from plankwise.models.planned import config_class

        family = family_config(config_dict)
        own = {key: value for key, value in config_dict.items() if key not in ("model_type", REFUSING_KEY, KEPT_KEY)}
        own[REFUSING_KEY] = config_dict.get(KEPT_KEY)
        return super(PlannedConfig, config_class(family, leaving="exits" in own)).from_dict(own, **kwargs)

    def to_diff_dict(self) -> dict[str, Any]:
        """What is written to config.json."""
        data = super().to_diff_dict()
        return {**data, REFUSING_KEY: REFUSAL, KEPT_KEY: data.get(REFUSING_KEY)}


class HybridConfig(PreTrainedConfig):
    """What a hybrid's config.json says: the predecessor's config, and the plan; it is written, and read by `unpack` alone.

    One of the family's own keys holds the refusal, not the dtype: a Trainer that resumes reads the file as a config of no family.
    """

    model_type = HYBRID_TYPE

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """What the Auto classes call: always refuses.

        Raises:
            ConfigError: a hybrid is not a model to load.
        """
        path = str(kwargs.get("name_or_path") or config_dict.get("name_or_path") or "this folder")
        raise ConfigError(
            f"{path} is a checkpoint of a hybrid in training ({config_dict.get('family')}, {len(config_dict['plan'])} slots), not "
            f"a finished model; take its successor out by plankwise.load({path!r}).save_pretrained('successor') and give that "
            f"folder, or go on training by trainer.train(resume_from_checkpoint={path!r})"
        )

    @classmethod
    def pack(cls, config: PreTrainedConfig, plan: list[dict]) -> Any:
        """A copy of the predecessor's config that is written as a hybrid's."""
        family = type(config)
        packed = copy.deepcopy(config)
        packed.__class__ = type(f"Hybrid{family.__name__}", (cls, family), {"model_type": HYBRID_TYPE})
        packed.family, packed.plan = family.model_type, plan
        return packed

    def to_diff_dict(self) -> dict[str, Any]:
        """What is written to config.json."""
        data = super().to_diff_dict()
        depth = self.attribute_map.get("num_hidden_layers", "num_hidden_layers")
        key = _refusing_key(family_config(data), data, depth)
        return {**data, key: HYBRID_REFUSAL, HYBRID_KEPT_KEY: {key: data[key]}}


def unpack(config_dict: dict[str, Any]) -> tuple[Any, list[dict]]:
    """The predecessor's config and the plan that a hybrid's config.json holds.

    Raises:
        PlanError: transformers does not have the family.
    """
    family = family_config(config_dict)
    own = {
        key: value for key, value in config_dict.items() if key not in ("model_type", "family", "plan", HYBRID_KEPT_KEY)
    }
    return family.from_dict({**own, **config_dict[HYBRID_KEPT_KEY]}), config_dict["plan"]


def family_config(config_dict: dict[str, Any]) -> Any:
    """The config class of the family that a config.json of ours names.

    Raises:
        PlanError: transformers does not have it.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    family = str(config_dict.get("family"))
    if family not in CONFIG_MAPPING:
        raise PlanError(
            f"config.json names the model family {family!r}, which transformers does not have; "
            "use the versions of transformers and plankwise that wrote it"
        )
    return CONFIG_MAPPING[family]


def _refusing_key(family: Any, data: dict[str, Any], depth: str) -> str:
    """A key of the family's own whose value has to be a number, the depth if it can be: its class refuses words there.

    A config of no family must not: some check the depth against other entries.
    """
    common = vars(PreTrainedConfig())
    numbers = [key for key, value in data.items() if type(value) is int and key not in common]
    inner = [key for key in getattr(family, "sub_configs", {}) if key in data]
    candidates = sorted([*numbers, *inner], key=lambda key: key != depth)
    with quiet():
        for key in candidates:
            words = {**data, key: HYBRID_REFUSAL}
            if _takes(PreTrainedConfig, words) and not _takes(family, words):
                return key
    return candidates[0]


def _takes(kind: Any, data: dict[str, Any]) -> bool:
    try:
        kind(**copy.deepcopy(data))
    except Exception:  # families have errors of their own
        return False
    return True
