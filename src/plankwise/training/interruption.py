"""A run that is told to stop (SIGINT, SIGTERM, SIGHUP) saves what it can and says how to go on.

While a stage trains, the first signal is noted and the stage stops after its current step, with a checkpoint of it. At any
other time, and at the second signal, the run stops at once: what it had saved before is there. It stops by a KeyboardInterrupt,
which no library takes for a failure of its own, and which leaves `interruptible` as an InterruptedRunError.
"""

import atexit
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from plankwise.errors import RunError

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

_requested: int | None = None  # the signal that asked for a stop
_stages = 0  # that are training now


class InterruptedRunError(RunError):
    """The run was told to stop; the same command goes on with it."""

    goes_on = True  # whether the same command goes on with what was done

    def __init__(self, message: str, number: int | None = None, *, goes_on: bool = True) -> None:
        super().__init__(message)
        self.exit_code = 128 + (number or signal.SIGTERM)  # as shells have it
        self.goes_on = goes_on

    @classmethod
    def at(cls, step: int, max_steps: int) -> "InterruptedRunError":
        by = _by(_requested) if _requested else " by another rank"
        return cls(f"stopped{by} at step {step} of {max_steps}; the same command goes on from there", _requested)


class _StopNow(KeyboardInterrupt):
    """A signal that is obeyed at once."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped{_by(number)}")
        self.number = number


def _by(number: int) -> str:
    """Who stopped it; whoever pressed Ctrl-C need not be told."""
    return "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"


def requested() -> int | None:
    """The signal that asked for a stop, if one did."""
    return _requested


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside, signals stop a run as described above; only in the main thread, where Python can listen to them."""
    global _requested
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _note) for number in SIGNALS}
    _requested = None
    try:
        yield
    except _StopNow as stop:
        raise InterruptedRunError(f"{stop}; the same command goes on from the last checkpoint", stop.number) from None
    finally:
        _requested = None
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stopping_after_a_step() -> Iterator[None]:
    """Inside, whoever calls looks at `requested` after each step."""
    global _stages
    _stages += 1
    try:
        yield
    finally:
        _stages -= 1


def _note(number: int, frame: Any) -> None:
    global _requested
    if _stages and _requested is None:
        _requested = number
        return
    raise _StopNow(number)


@contextmanager
def without_tracebacks() -> Iterator[None]:
    """Inside, a stop that hits a destructor, where Python prints what is raised and goes on, is sent again instead.

    Once the process ends, Ctrl-C is too late to stop anything, and is ignored.
    """
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    before = sys.unraisablehook

    def send_again(dropped: Any) -> None:
        if not isinstance(dropped.exc_value, KeyboardInterrupt):
            before(dropped)
            return
        number = getattr(dropped.exc_value, "number", signal.SIGINT)
        again = threading.Timer(0.01, signal.raise_signal, [number])
        again.daemon = True
        again.start()

    sys.unraisablehook = send_again
    try:
        yield
    finally:
        sys.unraisablehook = before
