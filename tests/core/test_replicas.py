"""A hybrid copied for several devices in one process, as `torch.nn.DataParallel` does it, and run in one thread for each copy.

torch copies modules to GPUs alone; here its own function runs with the one step replaced that needs them, so all copies are on the
CPU. What this cannot show is the copying of weights between GPUs.
"""

import inspect
import threading

import pytest
import torch
from torch import nn
from torch.nn.parallel import replicate

import plankwise
from plankwise.core.hybrid import Rules
from plankwise.core.taps import tapped
from plankwise.errors import RunError

NEVER = plankwise.Constant(rate=0.0, full_at=1.0)


@pytest.fixture
def copies(monkeypatch):
    """Makes two replicas of a model."""
    module = inspect.getmodule(replicate)
    copied = lambda tensors, devices, detach=False: [[t.view_as(t) for t in tensors] for _ in devices]  # noqa: E731
    monkeypatch.setattr(module, "_broadcast_coalesced_reshape", copied)
    monkeypatch.setattr(module, "_get_device_index", lambda device, *_: device)
    return lambda model: replicate(model, [0, 1])


def in_threads(replicas, batches):
    """What each replica makes of its batch, all of them at once; an error in any is raised."""
    outputs, failures = [None] * len(replicas), []

    def run(index):
        try:
            outputs[index] = replicas[index](batches[index])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(replicas))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return outputs


class Meeting(nn.Module):
    """A block that goes on only once all threads have reached it, and gives something beside its state."""

    def __init__(self, barrier: list[threading.Barrier]) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.barrier = barrier

    def forward(self, state):
        for barrier in self.barrier:
            barrier.wait(timeout=20)
        return self.linear(state), state.sum()


class Chain(nn.Module):
    def __init__(self, barrier: list[threading.Barrier]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Meeting(barrier) for _ in range(4))

    def forward(self, state):
        sums = []
        for block in self.blocks:
            state, total = block(state)
            sums.append(total)
        return state, torch.stack(sums)


@pytest.mark.parametrize("mask", [False, True, (True, False)])
@pytest.mark.parametrize("blend", [False, True])
def test_replicas_that_run_at_the_same_time_give_what_the_hybrid_gives(copies, mask, blend):
    barrier: list[threading.Barrier] = []
    torch.manual_seed(0)
    ship = plankwise.hybrid(Chain(barrier), successors=2, init="random", rules=Rules(blend=blend)).eval()
    batches = torch.randn(2, 3, 4)
    mode = ship.sampled(0.25, seed=0) if blend else ship.masked(mask)
    with mode, torch.no_grad():
        expected = [ship(batch) for batch in batches]
        barrier.append(threading.Barrier(2))
        outputs = in_threads(copies(ship), batches)
    for output, wanted in zip(outputs, expected, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(output, wanted, strict=True))


class Doubling(nn.Module):
    def forward(self, image):
        return 2 * image


def test_a_replica_runs_its_own_modules_not_the_originals(copies, residual):
    model, batch = residual
    ship = plankwise.hybrid(model, successors=2)
    assert "forward" not in vars(ship)
    for replica in copies(ship):
        assert replica.forward.__self__ is replica
        assert not set(map(id, replica.modules())) & set(map(id, ship.modules()))
        replica.blocks[0].successor = Doubling()
        assert not torch.equal(replica.eval()(batch), ship.eval()(batch))


@pytest.mark.parametrize("mask", [(True, False), (True, True)])
def test_gradients_of_replicas_add_up_to_the_hybrids(copies, recurrent, mask):
    model, batch = recurrent
    model.double()
    ship = plankwise.hybrid(model, successors=2)
    ship.begin(2)
    ship.train()
    with ship.masked(mask):
        ship(batch).sum().backward()
        expected = {name: p.grad.clone() for name, p in ship.named_parameters() if p.grad is not None}
        ship.zero_grad()
        outputs = in_threads(copies(ship), [batch[:1], batch[1:]])
        torch.cat(outputs).sum().backward()
    found = {name: p.grad for name, p in ship.named_parameters() if p.grad is not None}
    assert found.keys() == expected.keys()
    assert all(torch.allclose(found[name], grad, rtol=1e-12, atol=1e-12) for name, grad in expected.items())


class WithLoss(nn.Module):
    """Computes its own loss, and notes its forward passes in a list that replicas share."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner = model
        model.passes = []

    def forward(self, batch):
        self.inner.passes.append(1)
        return {"loss": self.inner(batch).square().mean()}


def skipping(model):
    """A hybrid in training whose steps all train nothing."""
    ship = plankwise.hybrid(WithLoss(model), successors=2, schedule=NEVER)
    ship.begin(3)
    return ship.train()


def test_a_step_that_trains_nothing_is_skipped_in_replicas_too(copies, residual):
    model, batch = residual
    ship = skipping(model)
    losses = [replica(batch)["loss"] for replica in copies(ship)]
    ship.set_step(1)
    losses += [replica(batch)["loss"] for replica in copies(ship)]
    assert model.passes == [1]  # to have a loss to report
    assert all(torch.equal(loss, losses[0]) for loss in losses)
    torch.stack(losses).sum().backward()
    assert all(parameter.grad is None for parameter in ship.parameters())


def test_a_skipped_step_of_a_replica_reports_a_loss_that_is_on_its_own_device(copies, residual):
    model, batch = residual
    ship = skipping(model)
    assert copies(ship)[0](batch)["loss"].device.type == "cpu"
    ship.set_step(1)
    assert copies(ship.to("meta"))[1](batch.to("meta"))["loss"].device.type == "meta"


def test_what_is_read_of_one_replica_alone_is_refused(copies, residual):
    model, batch = residual
    ship = plankwise.hybrid(model, successors=2).eval()
    sampled, paired, taps = ship.sampled(0.5, seed=0), ship.paired(), tapped(ship, ["blocks.0"])
    for mode in (sampled, paired, taps):
        with mode, pytest.raises(RunError, match=r"torchrun|CUDA_VISIBLE_DEVICES"):
            copies(ship)[0](batch)
