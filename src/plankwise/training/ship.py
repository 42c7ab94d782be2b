"""The hybrid of a Hugging Face or plain torch model, for a training script that exists already.

ship = plankwise.hybrid(model, successors=6, schedule=plankwise.Linear(start=0.3, full_at=0.5))
Trainer(model=ship, args=args, train_dataset=train, callbacks=[ship.callback()]).train()
ship.collapse().save_pretrained("successor")
"""

import logging
import time
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any, get_args

import torch
from torch import nn
from transformers import PreTrainedModel, TrainerCallback

from plankwise.config import PlanOptions, Unfreeze
from plankwise.core.hybrid import Hybrid, Rules, install
from plankwise.core.plan import Plan, Slot, checked_plan, even_plan, listed_plan, match_paths
from plankwise.core.schedule import Linear, Plateau, Schedule
from plankwise.errors import ConfigError, PlanError
from plankwise.families import chains_of, disable_layerdrop, group_parameters
from plankwise.models.hybrids import SavedAsHybrid, label_inside
from plankwise.models.plans import arrange, build_successors, check_collapse, check_model, make_plan, take_out
from plankwise.models.saving import find_tokenizer, save_beside
from plankwise.options import validate
from plankwise.parts import COMPUTED, OWN, STARTS

logger = logging.getLogger(__name__)

HYBRID_SCORE = "hybrid_score"  # in a log history: what the hybrid, run at its rate, scored after so many steps


class Ship(Hybrid):
    """A hybrid that knows transformers: a callback for its Trainer, and a successor that loads with plain AutoModel."""

    def callback(self, score: Callable[[nn.Module], dict[str, float]] | None = None) -> "ReplacingCallback":
        """What tells the hybrid at which step the Trainer is.

        A plateau schedule needs `score`: a model in eval mode in, at least the key "score" out, higher if better, and the same
        in every process.
        """
        return ReplacingCallback(self, score)

    def recall(self, history: Iterable[dict]) -> None:
        """Gives a plateau schedule the rises that a training's log history led to; other schedules stay as they are."""
        if isinstance(self.schedule, Plateau):
            scores = [(entry["step"], entry[HYBRID_SCORE]) for entry in history if HYBRID_SCORE in entry]
            self.follow(self.schedule.after(scores))

    def collapse(self) -> nn.Module:
        """The successor alone, as a new model of the predecessor's class; the hybrid stays as it is.

        Its `save_pretrained` writes the tokenizer, or processor, too: the Trainer's, or else the one in the predecessor's folder.
        """
        return save_beside(take_out(self), self._hybrid_state.processing_class or _tokenizer_of(self))


class PretrainedShip(SavedAsHybrid, Ship):
    """The ship of a Hugging Face model: what a Trainer saves of it says that it is a hybrid."""


class ReplacingCallback(TrainerCallback):
    """Sets the step, reports the rate and the expected learning rate (the paper's equation 7).

    With a plateau schedule it scores the hybrid at each evaluation and raises the rate. It keeps nothing but what it writes to the
    log history, which is in every checkpoint: a resumed training goes on as if it had not been stopped.
    """

    def __init__(self, ship: Ship, score: Callable[[nn.Module], dict[str, float]] | None = None) -> None:
        self.ship = ship
        self.score = score
        self.scaler_before: dict[str, Any] | None = None  # a scaler's state while a step without gradients is taken

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if isinstance(self.ship.schedule, Plateau) and self.score is None:
            raise ConfigError(
                "the schedule is a plateau, which rises by the hybrid's score, but the callback cannot score; "
                "give it a function, ship.callback(score=...), or choose a schedule that is driven by the step"
            )
        found = kwargs.get("processing_class") or _collator_tokenizer(kwargs.get("train_dataloader"))
        if found is not None:
            self.ship._hybrid_state.processing_class = found
        elif _reads_text(self.ship) and _tokenizer_of(self.ship) is None:
            logger.warning(
                "the Trainer knows no tokenizer, so none will be saved beside the successor, which cannot be used without one; "
                "give it Trainer(processing_class=tokenizer), or save it yourself: tokenizer.save_pretrained('successor')"
            )
        self.ship.recall(state.log_history)
        self.ship.begin(state.max_steps)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.ship.set_step(state.global_step)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        optimizer = kwargs["optimizer"]
        if (scaler := getattr(optimizer, "scaler", None)) is not None:
            self.scaler_before = _record_no_overflow(scaler, optimizer.optimizer)
        if self.ship.rules.idle_momentum:
            moved = optimizer.state
            for parameter in self.ship.successor_parameters().values():
                if parameter.grad is None and parameter in moved:
                    parameter.grad = parameter.new_zeros(parameter.shape)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.scaler_before is not None:
            kwargs["optimizer"].scaler.load_state_dict(self.scaler_before)
            self.scaler_before = None

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        step, schedule = state.global_step, self.ship.schedule
        if not isinstance(schedule, Plateau) or self.score is None:
            return
        rate = schedule(step, state.max_steps)
        scored = any(HYBRID_SCORE in entry and entry["step"] == step for entry in state.log_history)
        if rate == 1 or scored:  # several dev sets are several evaluations at one step
            return
        started = time.monotonic()
        with self.ship.sampled(rate, args.seed):
            found = self.score(self.ship)
        if "score" not in found:
            raise ConfigError(f"the function given to ship.callback gave {found}; let it give the key 'score' too")
        state.log_history.append({HYBRID_SCORE: float(found["score"]), "replacing_rate": rate, "step": step})
        self.ship.recall(state.log_history)
        if "eval_seconds" in kwargs["metrics"]:
            kwargs["metrics"]["eval_seconds"] += time.monotonic() - started

    def on_log(self, args: Any, state: Any, control: Any, logs: dict | None = None, **kwargs: Any) -> None:
        if logs and "learning_rate" in logs:
            extra = {
                "replacing_rate": self.ship.rate,
                "expected_learning_rate": self.ship.rate * float(logs["learning_rate"]),
            }
            logs.update(extra)
            state.log_history[-1].update(extra)


def _collator_tokenizer(loader: Any) -> Any:
    """The tokenizer of the function that makes batches, which a Trainer without a `processing_class` saves too; or None."""
    collate = getattr(loader, "collate_fn", None)
    return getattr(getattr(collate, "data_collator", collate), "tokenizer", None)


def _reads_text(model: Any) -> bool:
    return isinstance(model, PreTrainedModel) and model.main_input_name == "input_ids"


def _tokenizer_of(model: Any) -> Any:
    """The tokenizer in the folder that a model of text came from, if it fits the model; or None."""
    if not _reads_text(model) or not model.config.name_or_path:
        return None
    tokenizer = find_tokenizer(model.config.name_or_path)
    words = getattr(model.config.get_text_config(), "vocab_size", None)
    fits = tokenizer is not None and (words is None or len(tokenizer) <= words)
    return tokenizer if fits else None


def _record_no_overflow(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> dict[str, Any] | None:
    """Lets a gradient scaler take a step in which no parameter has a gradient; its state before, or None if there are gradients.

    A Trainer in float16 has by then unscaled the gradients. Where there are none, as in a skipped step, the scaler has checked none
    for overflow and would refuse the step. So one parameter gets a gradient of zeros for as long as the check takes; the optimiser
    then finds no gradient at all and moves nothing, neither by momentum nor by weight decay. The step would still count towards
    the scale's growth: give the state back to the scaler once it is over.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if any(parameter.grad is not None for parameter in parameters):
        return None
    before = scaler.state_dict()
    scaler.update(scaler.get_scale())  # the scale that it has: this only takes back the check that found nothing
    parameters[0].grad = torch.zeros_like(parameters[0])
    scaler.unscale_(optimizer)
    parameters[0].grad = None
    return before


def hybrid(
    model: nn.Module,
    successors: int | None = None,
    schedule: Schedule | None = None,
    *,
    spans: list[list[int]] | None = None,
    slots: dict[str, nn.Module] | list[dict[str, Any]] | None = None,
    chains: list[str] | None = None,
    part: str = "layers",
    init: str = "lower",
    seed: int = 0,
    unfreeze: Unfreeze = "nothing",
    rules: Rules | None = None,
) -> Ship:
    """Installs slots in a trained model, which becomes the hybrid (in place), frozen but for the successors.

    Say the plan in one way: `successors` even spans per chain (half the blocks by default), listed `spans`, or `slots`: modules
    of your own, each by the path of the one module that it replaces; or a list of slots as a recipe's plan.slots has them, each
    with a path and, if need be, a span, and with a part and its options or a `module` of your own. `unfreeze` names what else is
    trained once the rate is 1.
    A wrapper around a Hugging Face model (a SentenceTransformer, a module of your own) is given back as one by `collapse`.

    Raises:
        ConfigError: an argument is not what it should be.
        PlanError: the plan does not fit the model, or its successor could not be taken out after training.
    """
    check_model(model)
    _check_arguments(successors, schedule, init, unfreeze)
    if sum(way is not None for way in (successors, spans, slots)) > 1:
        raise ConfigError("successors, spans and slots say the same thing in different ways; give one of them")
    if isinstance(slots, list):
        plan, built = _read_slots(model, slots, part, init=init, seed=seed)
    elif slots is not None:
        for path in slots:
            _check_one_module(path, match_paths(model, path))
        plan, built = checked_plan([Slot(path, part=OWN) for path in slots], []), list(slots.values())
    else:
        found = chains_of(model, chains)
        plan = even_plan(found, successors, part) if spans is None else listed_plan(found, spans, part)
        built = build_successors(model, plan, init=init, seed=seed)
    check_collapse(model, plan, built)
    return launch(model, plan, built, schedule or Linear(), seed=seed, unfreeze=unfreeze, rules=rules or Rules())


def _read_slots(
    model: nn.Module, slots: list[dict[str, Any]], part: str, *, init: str, seed: int
) -> tuple[Plan, list[nn.Module]]:
    """The plan of listed slots with its successors: modules that were given, and what parts build for the others."""
    own: dict[Slot, nn.Module] = {}
    for entry in slots:
        if isinstance(entry, dict) and "module" in entry:
            _check_own(model, entry)
            own[Slot(entry["path"], tuple(entry.get("span") or ()), OWN)] = entry["module"]
    others = [entry for entry in slots if not (isinstance(entry, dict) and "module" in entry)]
    asked = Plan(())
    if others or not own:
        asked = make_plan(model, validate(PlanOptions, {"slots": others, "part": part}, prefix="plan."))
    built = dict(zip(asked.slots, build_successors(model, asked, init=init, seed=seed), strict=True)) | own
    plan = arrange(model, [*own, *asked.slots])
    return plan, [built[slot] for slot in plan.slots]


def _check_own(model: nn.Module, entry: dict[str, Any]) -> None:
    unknown = [key for key in entry if key not in ("path", "span", "module")]
    if unknown or "path" not in entry or not isinstance(entry["module"], nn.Module):
        raise ConfigError(
            f"slots has the entry {entry}; one with a module of your own has the keys path, module (an nn.Module) and, if it "
            "replaces several blocks of a chain, span"
        )
    _check_one_module(entry["path"], match_paths(model, entry["path"]))


def _check_arguments(successors: Any, schedule: Any, init: Any, unfreeze: Any) -> None:
    if successors is not None and (isinstance(successors, bool) or not isinstance(successors, Integral)):
        raise ConfigError(
            f"successors is {successors!r}, which is not a whole number; give one, for example successors=3"
        )
    if schedule is not None and not isinstance(schedule, Schedule):
        raise ConfigError(
            f"schedule is {schedule!r}, which is not a schedule; give one of plankwise's, for example "
            "schedule=plankwise.Linear(start=0.3, full_at=0.5)"
        )
    if init in COMPUTED:
        raise ConfigError(
            f"init is {init!r}, for which successors are computed from texts first, and hybrid() is given none; use a recipe with "
            f"plan.init = {init!r} and `plankwise compress`, or choose {', '.join(STARTS)} here"
        )
    if unfreeze not in get_args(Unfreeze):
        raise ConfigError(f"unfreeze is {unfreeze!r}; choose one of {', '.join(get_args(Unfreeze))}")


def _check_one_module(path: str, matches: list[str]) -> None:
    if matches != [path]:
        raise PlanError(
            f"slots: {path!r} is a pattern, which stands for {len(matches)} modules ({_shorten(matches)}), and a module can "
            "stand in one place only; give one entry for each path, each with a module of its own"
        )


def _shorten(paths: list[str], most: int = 4) -> str:
    return ", ".join(paths if len(paths) <= most else [*paths[: most - 1], "...", paths[-1]])


def launch(
    model: nn.Module,
    plan: Plan,
    successors: list[nn.Module],
    schedule: Schedule,
    *,
    seed: int,
    unfreeze: Unfreeze,
    rules: Rules,
) -> Ship:
    """The hybrid of a plan whose successors have been built."""
    disable_layerdrop(model)
    inside = {slot.path for slot in plan.slots if slot.span}
    places = tuple(f"{place}." for slot in plan.slots for place in slot.places)
    groups = group_parameters(model, inside or {slot.path for slot in plan.slots})
    unfrozen = {
        name
        for name, _ in model.named_parameters(remove_duplicate=False)
        if not name.startswith(places) and (unfreeze == "all" or groups.get(name) == unfreeze)
    }
    merged = Rules(**{**vars(rules), "unfrozen": frozenset(unfrozen)})
    kind = PretrainedShip if isinstance(model, PreTrainedModel) else Ship
    ship = install(model, plan, successors, schedule, seed=seed, rules=merged, kind=kind)
    assert isinstance(ship, Ship)
    label_inside(ship, plan)
    return ship
