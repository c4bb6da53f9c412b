"""A PostgreSQL server of our own: in a temporary folder, on a socket there, as a user without rights."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def postgres() -> Iterator[str]:
    """The server's SQLAlchemy URL; where its programs or the driver are not installed the test is skipped."""
    pytest.importorskip("psycopg", reason="the driver psycopg is not installed")
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(shutil.which("initdb") or "/none")]
    if not programs[-1].exists():
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    user = "nobody" if os.getuid() == 0 else None  # it refuses to run as root
    home = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    try:
        if user:
            shutil.chown(home, user)
        data = home / "data"
        initdb = [programs[-1], "-D", data, "-U", "tester", "-A", "trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
        subprocess.run(initdb, user=user, cwd=home, check=True, capture_output=True)
        settings = {"listen_addresses": "", "unix_socket_directories": str(home), "fsync": "off"}
        server = [programs[-1].with_name("postgres"), "-D", data]
        server += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (home / "log").open("wb") as log:
            running = subprocess.Popen(server, user=user, cwd=home, stderr=log, stdout=log)
        try:
            url = f"postgresql://tester@/postgres?host={home}"
            _wait_for(home, running)
            yield url
        finally:
            running.send_signal(2)  # fast shutdown: open connections are ended
            running.wait(20)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _wait_for(home: Path, running: subprocess.Popen[bytes]) -> None:
    import psycopg

    for _ in range(200):
        try:
            psycopg.connect(f"host={home} user=tester dbname=postgres", connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            if running.poll() is not None:
                break
            time.sleep(0.05)
    raise RuntimeError((home / "log").read_text("utf-8", "replace"))
