"""`transformers.Trainer` with our batches, our scoring, checkpoints without pickle, and a stop at a loss that is not a number.

With several ranks the model is not wrapped: each rank's gradients are added up here, after the last micro-batch of a step. A
wrapper has to be told beforehand which parameters will have a gradient, and here that differs from step to step (slots that
were not drawn, steps that train nothing, states that are read beside the outputs); all ranks draw the same masks, so adding up
what is there is enough.
"""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from transformers import Trainer, TrainerCallback
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState

from plankwise.context import Context
from plankwise.core.hybrid import Hybrid
from plankwise.data.encode import ROW
from plankwise.errors import RunError
from plankwise.files import whole_folder
from plankwise.task_kinds import Loss, Weigh
from plankwise.training import checkpoint, interruption
from plankwise.training.batches import BatchLoader, StepBatches
from plankwise.training.weights import load_weights, save_weights

Score = Callable[[nn.Module], dict[str, float]]  # gives at least the key "score", the same on every rank
BUCKET_BYTES = 32 << 20  # of gradients that are added up at once


class StageTrainer(Trainer):
    """One stage's Trainer; `trained` names the parameters that the stage may change, `loss` is the model's own if None.

    `modules` are trained beside the model and saved in checkpoints, but do not belong to it. `slow`: by name, the share of the
    learning rate that parameters learn at, if not at all of it.
    """

    def __init__(
        self,
        *,
        context: Context,
        batches: StepBatches,
        score: Score,
        trained: set[str],
        loss: Loss | None,
        weigh: Weigh | None,
        modules: nn.ModuleDict,
        slow: Mapping[str, float],
        prune_columns: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model: nn.Module
        self.context = context
        self.folder = Path(str(self.args.output_dir))
        self.batches = batches
        self.score = score
        self.trained = trained
        self.loss = loss
        self.weigh = weigh
        self.modules = modules.to(self.args.device)
        self.slow = slow
        self.prune_columns = prune_columns
        self.step_weight = 0.0  # of all batches of the step, on every rank
        self.stop_requested = False
        self.add_callback(_AfterStep(self))

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        # Autocast is prepared as usual; the model is left unwrapped.
        self.accelerator.prepare_model = functools.partial(self.accelerator.prepare_model, evaluation_mode=True)

    def get_train_dataloader(self) -> BatchLoader:
        collate: Any = self.data_collator
        if self.prune_columns:
            collate = self._get_collator_with_removed_columns(collate, description="training")
        return BatchLoader(self.train_dataset, self.batches, collate)

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        columns: Any = self._signature_columns
        if ROW not in columns:
            columns.append(ROW)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        made = self.optimizer is None
        optimiser = super().create_optimizer(model)
        if made:
            self._slow_down(optimiser)
        own = list(self.modules.parameters())
        if own and not any(own[0] is one for group in optimiser.param_groups for one in group["params"]):
            optimiser.add_param_group({"params": own})
        return optimiser

    def _slow_down(self, optimiser: torch.optim.Optimizer) -> None:
        """Gives slow parameters groups of their own; schedules scale each group's rate from where it is now."""
        shares = {id(one): self.slow[name] for name, one in self.model.named_parameters() if name in self.slow}
        for group in list(optimiser.param_groups):
            params = group["params"]
            group["params"] = [one for one in params if id(one) not in shares]
            for share in sorted(set(self.slow.values())):
                slow = [one for one in params if shares.get(id(one)) == share]
                if slow:
                    optimiser.add_param_group({**group, "params": slow, "lr": share * group["lr"]})

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list, None]:
        batches, _ = super().get_batch_samples(*args, **kwargs)
        own = sum(self._weight(batch) for batch in batches if batch)
        self.step_weight, stop = self.context.total(own, float(interruption.requested() is not None))
        self.stop_requested = stop > 0
        return batches, None

    def _get_num_items_in_batch(self, *args: Any, **kwargs: Any) -> None:
        """Not counted: Trainer would add it up over the ranks, but not on a rank whose part is empty; the others wait for it."""

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        model.train()
        loss = torch.zeros((), device=self.args.device)
        if inputs:
            weight = self._weight(inputs)
            prepared = dict(self._prepare_inputs(inputs))
            rows = prepared.pop(ROW)
            with self.compute_loss_context_manager():
                loss = self.compute_loss(model, prepared, rows=rows)
            # The mean over the whole step, wherever its parts are.
            loss = loss if weight == self.step_weight else loss * (weight / self.step_weight)
            self._check_finite(loss)
            self.accelerator.backward(loss)
        if self.accelerator.sync_gradients:
            self._add_up_gradients(model)
        return loss.detach() * self.context.world_size  # Trainer logs the mean over the ranks

    def _weight(self, batch: dict[str, Any]) -> float:
        return float(len(batch[ROW])) if self.weigh is None else self.weigh(batch)

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if self.loss is None:
            return model(**inputs)["loss"]
        return self.loss(model, inputs, kwargs["rows"])

    def _check_finite(self, loss: torch.Tensor) -> None:
        if not torch.isfinite(loss):
            last = checkpoint.list_checkpoints(self.folder)
            kept = f"the last good checkpoint is {last[-1]}" if last else "no checkpoint had been written yet"
            raise RunError(
                f"the loss turned {loss.item()} at step {self.state.global_step}; {kept}; "
                "lower training.learning_rate, or set training.precision = 'float32', and start in a new run.folder"
            )

    def _add_up_gradients(self, model: nn.Module) -> None:
        """Leaves each parameter with the sum of its gradients over the ranks; without one where no rank has one."""
        if self.context.world_size == 1:
            return
        parameters = [p for p in (*model.parameters(), *self.modules.parameters()) if p.requires_grad]
        there = torch.tensor([p.grad is not None for p in parameters], dtype=torch.int32, device=self.args.device)
        distributed.all_reduce(there, group=self.context.steps)
        bucket: list[torch.Tensor] = []
        for parameter, count in zip(parameters, there.tolist(), strict=True):
            if not count:
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            bucket.append(parameter.grad)
            if sum(gradient.nbytes for gradient in bucket) >= BUCKET_BYTES:
                _all_reduce(bucket, self.context.steps)
                bucket = []
        _all_reduce(bucket, self.context.steps)

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        parameters = [*model.parameters(), *self.modules.parameters()]
        return self.accelerator.clip_grad_norm_(parameters, self.args.max_grad_norm)

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Not counted: Trainer would go through all parameters at every step for a figure that nobody reads."""
        return 0

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Scores the model in eval mode: of a hybrid, that is its successor.

        Raises:
            RunError: the score is not a number.
        """
        self.model.eval()
        metrics = {f"eval_{name}": value for name, value in self.score(self.model).items()}
        if metrics["eval_score"] != metrics["eval_score"]:
            raise RunError(
                f"the score on dev is not a number at step {self.state.global_step}; lower training.learning_rate, "
                "and start in a new run.folder"
            )
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        # At the last step the result follows at once; killed before it, the stage replays from the checkpoint before.
        if self.control.should_training_stop:
            return
        logged, randoms = self._logged(), self.context.gather(checkpoint.random_states())
        if not self.args.should_save:
            return
        states: Any = self.state.stateful_callbacks
        for callback in [*self.callback_handler.callbacks, self.control]:
            if isinstance(callback, ExportableState):
                states[type(callback).__name__] = callback.state()
        with whole_folder(self.folder / f"checkpoint-{self.state.global_step}") as part:
            tensors = checkpoint.trained_tensors(self.model, self.trained)
            if len(self.modules):
                save_weights(self.modules.state_dict(), part / checkpoint.MODULES)
            scaler = self.accelerator.scaler
            checkpoint.save_state(part, tensors, self.optimizer, self.lr_scheduler, scaler, logged, randoms)
            self.state.save_to_json(str(part / TRAINER_STATE_NAME))
            checkpoint.seal(part)
        checkpoint.prune_checkpoints(self.folder)

    def _logged(self) -> dict[str, Any]:
        """What a resumed training needs to log the same losses: means over the ranks, but for the step."""
        last = self.model.last_loss if isinstance(self.model, Hybrid) else None
        totals = self.context.total(self._tr_loss.item(), last or 0.0)
        losses, latest = (total / self.context.world_size for total in totals)
        return {
            "sum": losses,
            "step": self._globalstep_last_logged,
            "last": None if last is None else latest,
            "step_size": self.batches.step_size,
        }

    def check_step_size(self, folder: Path) -> None:
        """Refuses a checkpoint whose steps took another number of examples: what is left would be another training.

        Raises:
            RunError: it is so.
        """
        then, now = checkpoint.load_logged(folder).get("step_size"), self.batches.step_size
        if then not in (None, now):
            ranks = self.context.world_size
            raise RunError(
                f"{folder} was written by steps of {then} examples, and training.batch_size {now // ranks} on {ranks} "
                f"process{'es' * (ranks > 1)} makes steps of {now}; start as many processes as before, or choose another run.folder"
            )

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        folder = Path(resume_from_checkpoint)
        checkpoint.load_trained(self.model, self.trained, folder / checkpoint.WEIGHTS)
        if len(self.modules):
            path = folder / checkpoint.MODULES
            load_weights(self.modules, path, checkpoint.to_train_anew(path))

    def _load_optimizer_and_scheduler(self, checkpoint_folder: str | None) -> None:
        if checkpoint_folder is not None:
            scaler = self.accelerator.scaler
            checkpoint.load_optimiser(Path(checkpoint_folder), self.optimizer, self.lr_scheduler, scaler)

    def _load_scaler(self, checkpoint_folder: str | None) -> None:
        """Done together with the optimiser."""

    def _load_rng_state(self, checkpoint_folder: str | None) -> None:
        if checkpoint_folder is not None:
            checkpoint.load_rng(Path(checkpoint_folder), self.context.rank)
            logged = checkpoint.load_logged(Path(checkpoint_folder))
            self._tr_loss.fill_(logged["sum"])
            self._globalstep_last_logged = logged["step"]
            if isinstance(self.model, Hybrid) and logged["last"] is not None:
                self.model.last_loss = logged["last"]


class _AfterStep(TrainerCallback):
    """What a step leaves to do: gradients of own modules, and a stop that was asked for."""

    def __init__(self, trainer: StageTrainer) -> None:
        self.trainer = trainer

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer.modules.zero_grad()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.trainer.stop_requested and state.global_step < state.max_steps:
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.trainer.stop_requested and state.global_step < state.max_steps:
            self.trainer.context.wait()
            raise interruption.InterruptedRunError.at(state.global_step, state.max_steps)


def _all_reduce(gradients: list[torch.Tensor], group: Any) -> None:
    for dtype in {gradient.dtype for gradient in gradients}:
        some = [gradient for gradient in gradients if gradient.dtype == dtype]
        flat = torch.cat([gradient.flatten() for gradient in some])
        distributed.all_reduce(flat, group=group)
        for gradient, summed in zip(some, flat.split([one.numel() for one in some]), strict=True):
            gradient.copy_(summed.view_as(gradient))
