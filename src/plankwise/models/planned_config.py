"""The config of a successor that its family's config does not describe; light, so that it can be registered early."""

from typing import Any

from transformers.configuration_utils import PreTrainedConfig

from plankwise.errors import PlanError

MODEL_TYPE = "plankwise"
# A family's own class, asked for by name, would load such a checkpoint with a warning, and with random weights where a part has
# others. So config.json has this in place of the weights' dtype, which every config class of transformers looks up in torch: the
# lookup fails with these words in its message.
REFUSAL = "(this model has parts of plankwise: import plankwise and load it by plankwise.load or an Auto class)"
REFUSING_KEY, KEPT_KEY = "dtype", "weights_dtype"


class PlannedConfig(PreTrainedConfig):
    """A family's config and a plan; every instance is of a subclass that is the family's config class too."""

    model_type = MODEL_TYPE

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        from plankwise.models.planned import config_class

        family = str(config_dict.get("family"))
        if family not in CONFIG_MAPPING:
            raise PlanError(
                f"config.json names the model family {family!r}, which transformers does not have; "
                "use the versions of transformers and plankwise that wrote it"
            )
        own = {key: value for key, value in config_dict.items() if key not in ("model_type", REFUSING_KEY, KEPT_KEY)}
        own[REFUSING_KEY] = config_dict.get(KEPT_KEY)
        return super(PlannedConfig, config_class(CONFIG_MAPPING[family])).from_dict(own, **kwargs)

    def to_diff_dict(self) -> dict[str, Any]:
        """What is written to config.json."""
        data = super().to_diff_dict()
        return {**data, REFUSING_KEY: REFUSAL, KEPT_KEY: data.get(REFUSING_KEY)}
