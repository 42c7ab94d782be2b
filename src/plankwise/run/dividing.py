"""Work divided among workers: processes on one machine or on many that share a database; each item is done once, and none is lost.

A worker claims an item by one UPDATE that names whom it takes it from, so that of two workers one gets it. While it works, it
counts up the item's beats. An item is free again if its worker gives it back, if its process is gone from this machine, or if its
beats have stood still for a while by the clock of whoever looks: clocks of machines are never compared. What an item's work leaves
must be such that doing it again goes on with it: a worker that is killed has done a part of it.
"""

import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

from plankwise.context import Context
from plankwise.errors import ConfigError, MissingExtraError, RunError

BEAT, GRACE, POLL = 5.0, 60.0, 0.5  # seconds: between beats, of silence after which a worker is given up, between looks
TRIES = 20  # at making tables that another worker may be making, too
LONGEST = 200  # letters of a name
EXAMPLES = "sqlite:///sweep.db or postgresql://USER@HOST/NAME"

Made = TypeVar("Made")


class ClaimLostError(RunError):
    """Another worker has this one's item."""


class Claim:
    """An item that a worker has; `check` says whether it still does."""

    def __init__(self, item: str) -> None:
        self.item = item
        self.lost = threading.Event()

    def check(self) -> None:
        """
        Raises:
            ClaimLostError: another worker has taken the item over.
        """
        if self.lost.is_set():
            raise ClaimLostError(f"{self.item} was taken over by another worker, after this one had been silent")


def held_by(context: Context, claim: Claim | None) -> Context:
    """A context in which training ends once another worker has taken the item over; the same if there are no workers."""
    return context if claim is None else replace(context, watch=lambda *evaluation: claim.check())


class Division:
    """The items of one piece of work, by its name, in a database."""

    def __init__(self, engine: Any, work: str, *, beat: float = BEAT, grace: float = GRACE) -> None:
        import sqlalchemy as sql

        self.engine, self.work, self.beat, self.grace = engine, work, beat, grace
        self.worker = f"{_machine()}/{os.getpid()}/{_started(os.getpid())}/{uuid.uuid4().hex[:8]}"
        self._seen: dict[str, tuple[tuple[str, int], float]] = {}  # by item: worker and beats, and since when
        data = sql.MetaData()
        name = sql.String(LONGEST)
        self.table = sql.Table(
            "plankwise_work", data,
            sql.Column("work", name, primary_key=True),
            sql.Column("item", name, primary_key=True),
            sql.Column("worker", name, nullable=False),
            sql.Column("beats", sql.Integer, nullable=False),
            sql.Column("done", sql.Boolean, nullable=False),
        )  # fmt: skip
        patiently(lambda: data.create_all(engine))

    def do(
        self,
        items: Sequence[str],
        work: Callable[[Claim], None],
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Calls `work` for items until every one is done, here or elsewhere; what others have is waited for, in case they die.

        What `work` raises is raised after the item has been given back, but for ClaimLostError.
        """
        self._add(items)
        told = ""
        while left := self._left(items):
            row = next((row for row in left if self._is_free(row) and self._claim(row)), None)
            if row is None:
                line = f"waiting for other workers, which have {', '.join(row.item for row in left)}"
                if line != told:
                    tell(line)
                told = line
                time.sleep(POLL)
                continue
            try:
                with self._beating(row.item) as claim:
                    work(claim)
            except ClaimLostError as error:
                tell(str(error))
                self._give_back(row.item)
                time.sleep(POLL)
            except BaseException:
                self._give_back(row.item)
                raise
            else:
                self._update(row.item, done=True, worker="")

    def in_turn(
        self, item: str, work: Callable[[Claim], Made], tell: Callable[[str], None] = lambda line: None
    ) -> Made:
        """What `work` gives, called here while no other worker is at this item; each worker does it in its turn."""
        self._add([item])
        told = False
        while True:
            (row,) = self._left([item])
            if self._is_free(row) and self._claim(row):
                break
            if not told:
                tell(f"waiting for another worker, which has {item}")
            told = True
            time.sleep(POLL)
        try:
            with self._beating(item) as claim:
                return work(claim)
        finally:
            self._give_back(item)

    def done(self) -> set[str]:
        return {row.item for row in self._rows() if row.done}

    def reopen(self, items: Iterable[str]) -> None:
        """Has items that are done be done again."""
        for item in items:
            self._change(item, self.table.c.done, done=False)

    def holders(self) -> dict[str, bool]:
        """The items that workers have, and whether their process is known to be gone."""
        table = self.table
        with self.engine.connect() as connection:
            rows = connection.execute(table.select().where(table.c.work == self.work, ~table.c.done)).all()
        return {row.item: _is_gone(row.worker) for row in rows if row.worker}

    def _add(self, items: Sequence[str]) -> None:
        from sqlalchemy.exc import IntegrityError

        known = {row.item for row in self._rows()}
        for item in items:
            if item in known:
                continue
            try:
                with self.engine.begin() as connection:
                    new = {"work": self.work, "item": item, "worker": "", "beats": 0, "done": False}
                    connection.execute(self.table.insert().values(new))
            except IntegrityError:
                pass  # another worker has just added it

    def _rows(self) -> list[Any]:
        with self.engine.connect() as connection:
            return list(connection.execute(self.table.select().where(self.table.c.work == self.work)))

    def _left(self, items: Sequence[str]) -> list[Any]:
        """The rows of items that are not done, in the order of the items."""
        order = {item: index for index, item in enumerate(items)}
        rows = [row for row in self._rows() if row.item in order and not row.done]
        return sorted(rows, key=lambda row: order[row.item])

    def _is_free(self, row: Any) -> bool:
        if not row.worker or _is_gone(row.worker):
            return True
        now, found = time.monotonic(), (row.worker, row.beats)
        before, since = self._seen.get(row.item, (None, now))
        if before != found:
            self._seen[row.item] = (found, now)
            return False
        return now - since > self.grace

    def _claim(self, row: Any) -> bool:
        where = self.table.c.worker == row.worker, self.table.c.beats == row.beats, ~self.table.c.done
        return self._change(row.item, *where, worker=self.worker, beats=row.beats + 1)

    def _update(self, item: str, **values: Any) -> bool:
        """Sets columns of an item of this worker's; False if it is not."""
        return self._change(item, self.table.c.worker == self.worker, **values)

    def _change(self, item: str, *where: Any, **values: Any) -> bool:
        table = self.table
        found = table.update().where(table.c.work == self.work, table.c.item == item, *where).values(values)
        with self.engine.begin() as connection:
            return connection.execute(found).rowcount == 1

    def _give_back(self, item: str) -> None:
        from sqlalchemy.exc import SQLAlchemyError

        # If the database is gone, what led here matters more; silence frees the item, too.
        with suppress(SQLAlchemyError):
            self._update(item, worker="")

    @contextmanager
    def _beating(self, item: str) -> Iterator[Claim]:
        from sqlalchemy.exc import SQLAlchemyError

        claim, ended = Claim(item), threading.Event()

        def count() -> None:
            while not ended.wait(self.beat):
                try:
                    if not self._update(item, beats=self.table.c.beats + 1):
                        claim.lost.set()
                        return
                except SQLAlchemyError:
                    continue  # the database is away; if it stays so, others give this worker up

        thread = threading.Thread(target=count, daemon=True)
        thread.start()
        try:
            yield claim
        finally:
            ended.set()
            thread.join()


def open_engine(url: str, option: str) -> Any:
    """A database for workers; `option` is what its URL was given by.

    Raises:
        ConfigError: it is not the URL of a database, or the package for its kind is missing.
        RunError: it cannot be reached.
    """
    try:
        import sqlalchemy as sql
        from sqlalchemy.exc import ArgumentError, SQLAlchemyError
    except ImportError:
        raise MissingExtraError(option, "sqlalchemy", "sweep") from None
    try:
        made = sql.make_url(url)
        engine = sql.create_engine(made, **engine_options(url))
    except (ArgumentError, ValueError):  # the latter of a port that is not a number
        scheme = re.match(r"[\w+.-]+://", url)  # the rest is not repeated: it may hold a password
        what = "" if scheme is None else f" begins with {scheme[0]!r}, but"
        raise ConfigError(f"{option}{what} is not the URL of a database; give one like {EXAMPLES}") from None
    except ModuleNotFoundError as error:
        if error.name == "psycopg":
            raise MissingExtraError(f"{option} {made.render_as_string()}", "psycopg", "postgresql") from None
        raise ConfigError(
            f"{option} is {made.render_as_string()}, which needs the package {error.name}; install it with pip"
        ) from None
    try:
        with engine.connect():
            return engine
    except SQLAlchemyError as error:
        told = str(getattr(error, "orig", error)).strip().splitlines()[0]
        raise RunError(
            f"{option} is {made.render_as_string()}, which cannot be used ({told}); check it, or start the database"
        ) from None


def engine_options(url: str) -> dict[str, Any]:
    """What SQLAlchemy is told of a database: in SQLite's file one worker at a time writes, and others wait for it."""
    return {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {"pool_pre_ping": True}


def patiently(make: Callable[[], Made]) -> Made:
    """What `make` gives; it is called again if it fails because another worker makes the same tables at the same time."""
    from sqlalchemy.exc import SQLAlchemyError

    for left in reversed(range(TRIES)):
        try:
            return make()
        except SQLAlchemyError:
            if not left:
                raise
            time.sleep(0.1)
    raise AssertionError("TRIES is 0")


def _machine() -> str:
    """Names this machine since it was started, and the space in which numbers of processes count; else nothing that repeats."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return uuid.uuid4().hex


def _started(process: int) -> str:
    """When a process of this machine was started: with its number, it is no other; empty if there is none."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _is_gone(worker: str) -> bool:
    """Whether a worker's process was on this machine and is no more."""
    machine, process, started, _ = worker.rsplit("/", 3)
    return machine == _machine() and _started(int(process)) != started
