"""The context of a run: device, rank, world size, console, folder, seed. Made once, passed whole.

One process and sixty-four differ in nothing else. Under `torchrun` or `accelerate launch` every rank runs the same program; what
must happen once (writing, measuring, deciding) goes through `on_main`, which runs it on rank 0 and tells the others. When a rank
ends before its time, the others find its connections closed, and end with a sentence; when one stops answering in a step of
training, they wait for `run.patience`. What a launcher asks for beside processes is refused: the recipe says how a run is trained.
"""

import atexit
import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from plankwise.errors import ConfigError, PlankwiseError, RunError

Result = TypeVar("Result")
Watch = Callable[
    [str, int, int, dict[str, float]], None
]  # a stage's name, its step, of how many, the evaluation's metrics
WAIT = timedelta(hours=12)  # that ranks wait for rank 0, which may be measuring
PATIENCE = 1800.0  # seconds that they wait for each other in a step of training
# What accelerate's config can ask for, by the variable that its launcher sets, and what it says where it does not.
LAUNCHED = {
    "ACCELERATE_USE_FSDP": ("FSDP", "false"),
    "ACCELERATE_USE_DEEPSPEED": ("DeepSpeed", "false"),
    "ACCELERATE_USE_MEGATRON_LM": ("Megatron-LM", "false"),
    "ACCELERATE_USE_PARALLELISM_CONFIG": ("a model in parts on several devices", "false"),
    "ACCELERATE_DYNAMO_BACKEND": ("compiled models (dynamo_backend)", "no"),
    "ACCELERATE_MIXED_PRECISION": ("mixed_precision", "no"),
}


@dataclass(frozen=True)
class Context:
    console: Console
    folder: Path
    seed: int = 0
    device: Any = None  # a torch.device; the CPU if not given
    rank: int = 0
    world_size: int = 1
    watch: Watch | None = None  # hears of every evaluation of the task's score while training goes on
    steps: Any = None  # the group of all ranks for steps of training, where none may be silent for `patience`
    patience: float = PATIENCE

    def __post_init__(self) -> None:
        if self.device is None:
            import torch

            object.__setattr__(self, "device", torch.device("cpu"))

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def at(self, folder: Path, seed: int) -> "Context":
        """The same for another run of this process."""
        return replace(self, folder=folder, seed=seed)

    def on_main(self, work: Callable[[], Result]) -> Result:
        """What `work` gives on rank 0, on every rank; what it raises there is raised everywhere.

        Raises:
            RunError: on the other ranks, when rank 0 failed for a reason that is not the user's to fix.
        """
        if self.world_size == 1:
            return work()
        from torch import distributed

        told: list[Any] = [None]
        failure: BaseException | None = None
        if self.is_main:
            try:
                told = [("done", work())]
            except (Exception, KeyboardInterrupt) as error:
                failure = error
                ours = isinstance(error, PlankwiseError)
                told = [("raised", type(error) if ours else None, str(error))]
        with self.explaining_lost_ranks():
            distributed.broadcast_object_list(told, src=0)
        if failure is not None:
            raise failure
        if told[0][0] == "done":
            return told[0][1]
        _, kind, message = told[0]
        raise rebuild_error(RunError, f"rank 0 failed: {message}") if kind is None else rebuild_error(kind, message)

    def wait(self) -> None:
        """Returns once every rank has come here."""
        self.on_main(lambda: None)

    def total(self, *numbers: float) -> list[float]:
        """Each number summed over the ranks."""
        if self.world_size == 1:
            return list(numbers)
        import torch
        from torch import distributed

        values = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        with self.explaining_lost_ranks():
            distributed.all_reduce(values, group=self.steps)
        return values.tolist()

    def gather(self, value: Any) -> list[Any]:
        """Each rank's value, on rank 0; on the others an empty list."""
        if self.world_size == 1:
            return [value]
        from torch import distributed

        values: list[Any] = [None] * self.world_size if self.is_main else []
        with self.explaining_lost_ranks():
            distributed.gather_object(value, values if self.is_main else None, dst=0, group=self.steps)
        return values

    @contextmanager
    def explaining_lost_ranks(self) -> Iterator[None]:
        """Inside, what torch says when another rank has ended is said in a sentence.

        Raises:
            RunError: another rank has ended, or has not answered in time.
        """
        try:
            yield
        except RuntimeError as error:
            if self.world_size == 1 or not _tells_of_a_lost_rank(error):
                raise
            if "imed out" in str(error):
                raise RunError(
                    f"one of the other {self.world_size - 1} ranks has not answered in time (in a step of training "
                    f"{self.patience:g} seconds, run.patience): it hangs, or its machine does; stop all ranks, and the same "
                    "command goes on from the last checkpoint"
                ) from error
            raise RunError(
                f"one of the other {self.world_size - 1} ranks has ended, or can no longer be reached: what it said, if it could "
                "say anything, and torchrun's own report name it (a signal 9 is often memory that ran out); the same command goes "
                "on from the last checkpoint"
            ) from error


def _tells_of_a_lost_rank(error: RuntimeError) -> bool:
    """Whether torch raised this because a rank could not be reached; gloo has no class of its own for that."""
    from torch import distributed

    return isinstance(error, distributed.DistError) or any(name in str(error) for name in ("gloo/", "TCPStore"))


def rebuild_error(kind: type[PlankwiseError], message: str) -> PlankwiseError:
    """Rank 0's error, whatever its constructor takes."""
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.told_by_rank_0 = True
    return error


def open_context(console: Console, folder: Path, seed: int, patience: float = PATIENCE) -> Context:
    """The context of this process: its own GPU if there is one, and its place among the processes that were started together.

    Raises:
        ConfigError: the launcher was asked for more than processes.
    """
    check_launcher(os.environ)
    if count_processes() == 1:
        return Context(console, folder, seed, own_device())
    from accelerate import PartialState

    state = PartialState(cpu=own_device().type == "cpu", timeout=WAIT)
    # Threads of gloo may still hold tensors; letting go of them once the interpreter is being torn down aborts the process.
    atexit.register(state.destroy_process_group)
    quiet = console if state.process_index == 0 else Console(quiet=True)
    place = (state.device, state.process_index, state.num_processes)
    return Context(quiet, folder, seed, *place, steps=_open_steps(patience), patience=patience)


@functools.cache
def _open_steps(patience: float) -> Any:
    """One group for all runs of these processes: each group has connections of its own."""
    from torch import distributed

    return distributed.new_group(timeout=timedelta(seconds=patience))


def check_launcher(environment: Mapping[str, str]) -> None:
    """Refuses what `accelerate launch` would change in a training beside the number of processes.

    Raises:
        ConfigError: it was asked for more, or it started one process where several were asked for.
    """
    for name, (what, none) in LAUNCHED.items():
        given = environment.get(name, none).lower()
        if given in ("", none, "0"):
            continue
        if name == "ACCELERATE_MIXED_PRECISION":
            raise ConfigError(
                f"accelerate's config has mixed_precision = {given}, but a run computes as its recipe says; set it to no there, "
                "and training.precision and predecessor.training.precision to float32, bfloat16 or float16 here"
            )
        raise ConfigError(
            f"accelerate's config asks for {what}, which a run cannot be trained with: each process keeps the whole model, and "
            "what of it runs changes from step to step; set distributed_type to MULTI_GPU and dynamo_backend to no there, or start "
            "with torchrun --nproc_per_node=2 -m plankwise"
        )
    if "MASTER_ADDR" in environment and "ACCELERATE_MIXED_PRECISION" in environment and "WORLD_SIZE" not in environment:
        raise ConfigError(
            "accelerate was asked for several processes and has started this one alone, or through MPI, which is not supported; "
            "start with torchrun --nproc_per_node=2 -m plankwise, or set distributed_type to MULTI_GPU in accelerate's config, "
            "which means CPUs where there is no GPU"
        )


def own_device() -> Any:
    """The first GPU, or the CPU where there is none."""
    import torch

    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def count_processes() -> int:
    """How many processes were started together with this one, this one included."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main_process() -> bool:
    """Whether this process is rank 0 of those that were started together, or was started alone."""
    return os.environ.get("RANK", "0") == "0"


def ranks_have_met() -> bool:
    """Whether this process has joined the others: from then on each may find what the others do not."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized()
