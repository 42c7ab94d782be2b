"""The hybrid of a finished run put together again, so that any of its successors can stand in for its span."""

from torch import nn

from plankwise.core.hybrid import Rules
from plankwise.core.plan import Plan
from plankwise.core.schedule import Constant
from plankwise.errors import PlanError
from plankwise.training.ship import Ship, build_successors, launch


def reassemble(predecessor: nn.Module, successor: nn.Module, plan: Plan, *, init: str = "lower") -> Ship:
    """The hybrid of a predecessor, which becomes it, and the successor that was trained from it with this `init`.

    Raises:
        PlanError: the plan has slots that are no spans, so where their successors went is not known.
    """
    check_spans(plan)
    # Built anew and filled: a block of the shorter model has its place there, which is another layer's in a cache here.
    blocks = build_successors(predecessor, plan, init=init, seed=0)
    for slot, block in zip(plan.slots, blocks, strict=True):
        followers = [index for other in plan.slots if other.path == slot.path for index in other.span[1:]]
        before = sum(index < slot.span[0] for index in followers)
        block.load_state_dict(successor.get_submodule(f"{slot.path}.{slot.span[0] - before}").state_dict())
    ship = launch(predecessor, plan, blocks, Constant(), seed=0, unfreeze="nothing", rules=Rules())
    ship.eval()
    return ship


def one_of(number: int, count: int) -> tuple[bool, ...]:
    """The mask in which only slot `number`, from 1, is replaced."""
    return tuple(index == number for index in range(1, count + 1))


def check_spans(plan: Plan) -> None:
    """Looks whether every slot is a span.

    Raises:
        PlanError: one is a single module.
    """
    for slot in plan.slots:
        if not slot.span:
            raise PlanError(
                f"study impact needs a plan of spans, but slot {slot} is a single module; use plan.successors or plan.spans"
            )
