"""Models whose matrices are packed where they are stored (see `packing.py`); in memory they are plain float32 matrices.

`config.json` says under `packed` how: {"PATH.weight": [bits, rows that share a scale], …}. `model.safetensors` is read by the
classes of `planned.py` alone, so the checkpoint has their `model_type`: plain transformers refuses it.
"""

from __future__ import annotations

from typing import Any

from safetensors.torch import load_file

from plankwise.models.packing import pack_state, unpack_state


class Packing:
    """What planned models do beside their family's own when they are saved and loaded; without `config.packed`, nothing."""

    config: Any
    all_tied_weights_keys: dict[str, str]

    def save_pretrained(self, save_directory: Any, *args: Any, state_dict: Any = None, **kwargs: Any) -> Any:
        """Writes the model's folder; a matrix that was changed since it was rounded is written as it is."""
        forms = getattr(self.config, "packed", None)
        if forms:
            state = dict(self.state_dict() if state_dict is None else state_dict)  # type: ignore[attr-defined]
            # What is shared is not stored twice, and the family could not see any more that it is shared.
            state = {name: value for name, value in state.items() if name not in self.all_tied_weights_keys}
            state_dict = pack_state(state, {name: (bits, rows) for name, (bits, rows) in forms.items()})
        return super().save_pretrained(save_directory, *args, state_dict=state_dict, **kwargs)  # type: ignore[misc]

    @classmethod
    def _load_pretrained_model(
        cls, model: Any, state_dict: Any, checkpoint_files: list[str] | None, *args: Any, **kwargs: Any
    ) -> Any:
        if getattr(model.config, "packed", None) and state_dict is None and checkpoint_files:
            stored = {name: value for file in checkpoint_files for name, value in load_file(file).items()}
            state_dict = unpack_state(stored)
        # A static method of transformers, which `from_pretrained` calls once it has made the model.
        return super()._load_pretrained_model(model, state_dict, checkpoint_files, *args, **kwargs)  # type: ignore[misc]
