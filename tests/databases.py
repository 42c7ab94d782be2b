"""A PostgreSQL server of the tests' own: Debian's programs, a new cluster in a temporary folder, stopped at the end."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from workers import free_port

OWNER = "postgres"  # the user that Debian's package makes; the server refuses to be run by root
MISSING = "PostgreSQL is not installed, so no server can be started; install it with: apt-get install postgresql"


@contextmanager
def postgresql() -> Iterator[str]:
    """Starts a server that listens on this machine alone; gives its URL, to which the name of a database is added."""
    programs = _find_programs()
    as_owner: dict[str, Any] = {"user": OWNER, "group": OWNER, "extra_groups": []} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="plankwise-postgresql-"))
    if as_owner:
        shutil.chown(folder, OWNER, OWNER)
    data, port = folder / "data", free_port()
    try:
        make = [programs / "initdb", "-D", data, "-U", OWNER, "--auth=trust", "--encoding=UTF8", "--no-locale"]
        subprocess.run([*make, "--no-sync"], check=True, capture_output=True, cwd=folder, **as_owner)
        serve = [programs / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", folder, "-F"]
        with open(folder / "log.txt", "wb") as log:
            server = subprocess.Popen(serve, stdout=log, stderr=log, cwd=folder, **as_owner)
        try:
            url = f"postgresql://{OWNER}@127.0.0.1:{port}"
            _wait_for(server, url, folder / "log.txt")
            yield url
        finally:
            server.send_signal(signal.SIGINT)  # which ends connections, too
            server.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_database(server: str) -> str:
    """The URL of an empty database on a server."""
    import psycopg

    name = f"test_{uuid4().hex}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{server}/{name}"


def _find_programs() -> Path:
    """The folder of the server's programs: Debian has one for each version, and none of them on the path."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve()] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    assert found, MISSING
    return found[-1].parent


def _wait_for(server: subprocess.Popen, url: str, log: Path) -> None:
    import psycopg

    until = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(f"{url}/postgres").close()
            return
        except psycopg.OperationalError:
            assert server.poll() is None, log.read_text("utf-8", "replace")
            assert time.monotonic() < until, log.read_text("utf-8", "replace")
            time.sleep(0.05)
