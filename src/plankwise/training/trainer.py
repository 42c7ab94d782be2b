"""`transformers.Trainer` with our batches, our scoring, checkpoints without pickle, and a stop at a loss that is no number."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import Trainer
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState

from plankwise.data.batch import LengthSampler, examples_of
from plankwise.data.encode import ROW
from plankwise.errors import RunError
from plankwise.files import whole_folder
from plankwise.training import checkpoint

Score = Callable[[nn.Module], dict[str, float]]
Objective = Callable[[nn.Module, dict[str, torch.Tensor], torch.Tensor], torch.Tensor]


class Numbered(torch.utils.data.Dataset):
    """A dataset whose examples know their place in it."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> dict:
        return {**self.dataset[row], ROW: row}

    def __getitems__(self, rows: list[int]) -> list[dict]:
        return [{**example, ROW: row} for example, row in zip(examples_of(self.dataset, rows), rows, strict=True)]


class StageTrainer(Trainer):
    """One stage's Trainer; `trained` names the parameters that the stage may change, `objective` is the loss if not the model's."""

    def __init__(
        self,
        *,
        sampler: LengthSampler,
        score: Score,
        trained: set[str],
        objective: Objective | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model: nn.Module
        self.folder = Path(str(self.args.output_dir))
        self.sampler = sampler
        self.score = score
        self.trained = trained
        self.objective: Objective | None = objective
        if objective is not None:
            self.loss_is_scaled_for_ga = False  # a mean over the micro-batch

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        columns: Any = self._signature_columns
        if ROW not in columns:
            columns.append(ROW)

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if self.objective is None:
            return super().compute_loss(model, inputs, *args, **kwargs)
        rows = inputs.pop(ROW)
        return self.objective(model, inputs, rows)

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Not counted: Trainer would go through all parameters at every step for a figure that nobody reads."""
        return 0

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthSampler:
        return self.sampler

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        loss = super().training_step(*args, **kwargs)
        if not torch.isfinite(loss):
            last = checkpoint.list_checkpoints(self.folder)
            kept = f"the last good checkpoint is {last[-1]}" if last else "no checkpoint had been written yet"
            raise RunError(
                f"the loss turned {loss.item()} at step {self.state.global_step}; {kept}; "
                "lower training.learning_rate, or set training.precision = 'float32', and start in a new run.folder"
            )
        return loss

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Scores the model in eval mode: of a hybrid, that is its successor."""
        self.model.eval()
        metrics = {f"eval_{name}": value for name, value in self.score(self.model).items()}
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        # At the last step the result follows at once; killed before it, the stage replays from the checkpoint before.
        if not self.args.should_save or self.control.should_training_stop:
            return
        states: Any = self.state.stateful_callbacks
        for callback in [*self.callback_handler.callbacks, self.control]:
            if isinstance(callback, ExportableState):
                states[type(callback).__name__] = callback.state()
        with whole_folder(self.folder / f"checkpoint-{self.state.global_step}") as part:
            tensors = checkpoint.trained_tensors(self.model, self.trained)
            checkpoint.save_state(part, tensors, self.optimizer, self.lr_scheduler, self.accelerator.scaler)
            self.state.save_to_json(str(part / TRAINER_STATE_NAME))
        checkpoint.prune_checkpoints(self.folder, keep=1)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        checkpoint.load_weights(self.model, Path(resume_from_checkpoint) / checkpoint.WEIGHTS)

    def _load_optimizer_and_scheduler(self, checkpoint_folder: str | None) -> None:
        if checkpoint_folder is not None:
            scaler = self.accelerator.scaler
            checkpoint.load_optimiser(Path(checkpoint_folder), self.optimizer, self.lr_scheduler, scaler)

    def _load_scaler(self, checkpoint_folder: str | None) -> None:
        """Done together with the optimiser."""

    def _load_rng_state(self, checkpoint_folder: str | None) -> None:
        if checkpoint_folder is not None:
            checkpoint.load_rng(Path(checkpoint_folder))
