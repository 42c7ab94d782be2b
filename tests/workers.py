"""What tests run in processes of their own, to kill them or to run several at once.

Processes are forked from a server that has imported everything once, so that each starts in a moment.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PRELOADED = ["workers", "torch", "transformers", "plankwise.run.compress", "plankwise.run.finetune", "plankwise.cli"]


def start(work: Callable[..., Any], *args: Any) -> multiprocessing.Process:
    """A process that calls a function of this module."""
    here = str(Path(__file__).parent)
    if here not in sys.path:
        sys.path.insert(0, here)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=work, args=args)
    process.start()
    return process


def wait(process: multiprocessing.Process, seconds: float = 300) -> int:
    """The exit code; on a busy machine a process may take minutes."""
    process.join(seconds)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError("the process did not end")
    return process.exitcode


def kill_when(process: multiprocessing.Process, reached: Callable[[], bool], number: int = signal.SIGKILL) -> bool:
    """Sends a signal once something has been reached; False if the process ended before."""
    while process.is_alive() and not reached():
        time.sleep(0.003)
    if not process.is_alive():
        return False
    os.kill(process.pid, number)
    process.join()
    return True


def last_step(stage: Path) -> int:
    """The step of the latest checkpoint in a stage's folder; 0 if there is none."""
    return max((int(path.name.partition("-")[2]) for path in stage.glob("checkpoint-*")), default=0)


def compress(recipe: str, overrides: list[str], output: str | None = None) -> None:
    """Runs a recipe as the command line does, exit code included; what it prints goes to a file."""
    import torch

    torch.set_num_threads(1)
    run_command(["compress", recipe, *overrides], output)


def run_command(arguments: list[str], output: str | None = None) -> None:
    from plankwise.cli import main

    file = open(output or os.devnull, "a", encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stderr = file
    sys.argv = ["plankwise", *arguments]
    try:
        main()
    finally:
        file.flush()


def finetune(recipe: str, overrides: list[str], model: str) -> None:
    """The same of `plankwise finetune`."""
    import torch

    torch.set_num_threads(1)
    run_command(["finetune", recipe, *overrides, "--model", model])


def compress_and_die(recipe: str, overrides: list[str], name: str, after: bool = False, count: int = 1) -> None:
    """Runs a recipe, and kills itself (-9) when a file or folder called `name` is to be renamed into its place, or after it.

    Any name will do if it is empty; `count` says at which of them. Of a safetensors file half is written before.
    """
    from plankwise.training import weights

    left, rename, save = count, os.replace, weights.save_file

    def reached(path: Any) -> bool:
        nonlocal left
        left -= Path(path).name == name or not name
        return left <= 0

    def replace(source: Any, target: Any) -> None:
        dies = reached(target)
        if dies and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        rename(source, target)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)

    def save_half(tensors: Any, path: str, **more: Any) -> None:
        save(tensors, path, **more)
        if Path(path).name == name and reached(path):
            with open(path, "r+b") as file:
                file.truncate(os.path.getsize(path) // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace, weights.save_file = replace, save_half
    compress(recipe, overrides)


def compress_on_a_small_disk(recipe: str, overrides: list[str], most: int, output: str) -> None:
    """Runs a recipe where no file can be larger than `most` bytes."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    compress(recipe, overrides, output)


def join_ranks(work: Callable[..., Any], world_size: int, port: int, *args: Any) -> list[multiprocessing.Process]:
    """Starts `work` on every rank of a group of processes."""
    return [start(as_rank, work, rank, world_size, port, *args) for rank in range(world_size)]


def as_rank(work: Callable[..., Any], rank: int, world_size: int, port: int, *args: Any) -> None:
    """Calls `work` as torchrun would start it."""
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world_size, "LOCAL_WORLD_SIZE": world_size}
    os.environ |= {name: str(value) for name, value in places.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    work(*args)


def train_sharded(folder: str) -> None:
    """A hybrid whose parameters FSDP has divided among the ranks, trained in a loop; what is gathered goes to FOLDER."""
    import torch
    from torch import distributed
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.fsdp import fully_shard

    from plankwise.core.slot import Place

    distributed.init_process_group("gloo")
    rank, world_size = distributed.get_rank(), distributed.get_world_size()
    ship = make_sharded_hybrid()
    for place in [one for one in ship.modules() if isinstance(one, Place)]:
        for block in (place.block, place.successor):
            if block is not None:
                fully_shard(block)
    fully_shard(ship)
    whole = sum(one.numel() for one in ship.parameters())
    own = sum(one.to_local().numel() for one in ship.parameters())
    losses, masks = train_in_a_loop(ship, rank, world_size)
    full = get_model_state_dict(ship, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if rank == 0:
        found = {"weights": full, "masks": masks, "losses": losses, "whole": whole, "own": own}
        torch.save(found, Path(folder) / "gathered.pt")
    distributed.barrier()
    distributed.destroy_process_group()


def make_sharded_hybrid() -> Any:
    import plankwise
    from stages import make_bert

    model = make_bert(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).double()
    return plankwise.hybrid(model, successors=2, schedule=plankwise.Linear(0.3, 0.6), seed=3, unfreeze="head")


def train_in_a_loop(
    ship: Any, rank: int, world_size: int, steps: int = 20
) -> tuple[list[float], list[tuple[bool, ...]]]:
    """Losses of this rank's share of each step, and the masks."""
    import torch

    optimiser = torch.optim.AdamW([one for one in ship.parameters() if one.requires_grad], lr=1e-3)
    losses, masks = [], []
    ship.begin(steps)
    ship.train()
    for step in range(steps):
        ship.set_step(step)
        masks.append(tuple(ship.mask))
        drawn = torch.Generator().manual_seed(step)
        ids, labels = torch.randint(5, 50, (8, 6), generator=drawn), torch.randint(0, 2, (8,), generator=drawn)
        loss = ship(input_ids=ids[rank::world_size], labels=labels[rank::world_size])["loss"]
        loss.backward()
        losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(ship.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
    return losses, masks


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def train_stage(folder: str, slow: float) -> None:
    """A stage of `stages.make_stage` on a hybrid, whose weights at the end are saved."""
    from safetensors.torch import save_file

    import plankwise
    from stages import make_bert, make_stage

    def score(model: Any) -> dict[str, float]:
        time.sleep(slow)
        weight = model.bert.encoder.layer[0].successor.output.dense.weight.detach().double()
        halves = {f"score_half_{half + 1}": float(weight[half::2].sum()) for half in range(2)}
        return {"score": float(weight.sum()), **halves}

    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    ship = plankwise.hybrid(make_bert(), successors=2, schedule=plankwise.Linear(0.2, 0.6), seed=3, unfreeze="head")
    stage = make_stage(place / "stage", score, evaluate_every=4, save_every=3)
    stage.run(ship, [ship.callback()], settled=lambda: ship.settled)
    save_file({name: value.clone() for name, value in ship.state_dict().items()}, place / "end.safetensors")


def train_long(folder: str, steps: int) -> None:
    """Many steps on a hybrid, and what they hold at each evaluation: memory, open files, checkpoints; to FOLDER/held.json."""
    import json

    import torch

    import plankwise
    from stages import make_bert, make_stage

    torch.set_num_threads(1)
    place, held = Path(folder), []

    def score(model: Any) -> dict[str, float]:
        status = Path("/proc/self/status").read_text("utf-8")
        (memory,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")]
        files = len(os.listdir("/proc/self/fd"))
        held.append({"kb": memory, "files": files, "checkpoints": len(list(place.glob("stage/checkpoint-*")))})
        return {"score": float(len(held) % 7)}

    ship = plankwise.hybrid(make_bert(), successors=2, schedule=plankwise.Linear(0.2, 0.6), seed=3)
    stage = make_stage(place / "stage", score, max_steps=steps, evaluate_every=20, save_every=10)
    result = stage.run(ship, [ship.callback()], settled=lambda: ship.settled)
    left = sorted(path.name for path in (place / "stage").iterdir())
    (place / "held.json").write_text(json.dumps({"steps": result.steps, "held": held, "left": left}))


def hold_lock_and_die(folder: str) -> None:
    from rich.console import Console

    from plankwise.run.folders import FolderLock

    FolderLock(Path(folder), Console(quiet=True)).acquire()
    os._exit(7)


def meet(folder: str) -> None:
    """Writes what a rank sees of a context to FOLDER/rank-N.json."""
    import atexit
    import json

    from rich.console import Console

    from plankwise.context import open_context, ranks_have_met
    from plankwise.errors import ConfigError

    rank = int(os.environ["RANK"])
    context = open_context(Console(file=open(os.devnull, "w")), Path(folder), 0)  # noqa: SIM115

    def attempt(work: Callable[[], Any]) -> list[Any]:
        try:
            context.on_main(work)
        except Exception as error:
            return [type(error).__name__, str(error), getattr(error, "told_by_rank_0", None)]
        return []

    def refuse() -> None:
        raise ConfigError("wrong")

    seen = {
        "who": context.on_main(lambda: rank),
        "total": context.total(rank, 10),
        "quiet": context.console.quiet,
        "raised": attempt(refuse),
        "failed": attempt(lambda: 1 / 0),
    }
    before = ranks_have_met()
    atexit._run_exitfuncs()  # as the interpreter does at its end
    seen["met"] = [before, ranks_have_met()]
    (Path(folder) / f"rank-{rank}.json").write_text(json.dumps(seen))
