"""A PostgreSQL of one's own for tests, from the programs that the machine has."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PASSWORD = "s3cret/of the:database"
_USER = "unisono"


def programs() -> Path | None:
    """Folder of initdb and pg_ctl."""
    found = shutil.which("pg_ctl")
    if found:
        return Path(found).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    return folders[-1].parent if folders else None


def missing() -> str:
    """Why no server can be started here; empty where one can."""
    if importlib.util.find_spec("psycopg") is None:
        return "needs psycopg: pip install 'unisono[postgres]'"
    if programs() is None:
        return "needs PostgreSQL: apt-get install postgresql"
    if os.geteuid() == 0 and not _other_user():
        return "PostgreSQL does not run as root, and there is no user postgres"
    return ""


def _other_user() -> str:
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return ""


class Server:
    """A running server; it listens on a socket in its folder, and on a port of loopback.

    Attributes:
        folder: of its data and its socket.
        port: where it listens.

    """

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self._number = 0

    def run(self, program: str, *arguments: str) -> None:
        """One of its own programs, as the user that it runs as."""
        bin_ = programs()
        assert bin_ is not None
        user = ["runuser", "-u", _other_user(), "--"] if os.geteuid() == 0 else []
        done = subprocess.run([*user, str(bin_ / program), *arguments], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + done.stdout

    def start(self) -> None:
        """Serve."""
        settings = f"-k {self.folder} -p {self.port} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=40"
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-s", "-l", f"{self.folder}/log", "-o", settings, "start")

    def stop(self) -> None:
        """Serve no more, at once: every connection breaks."""
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-s", "-m", "immediate", "stop")

    def database(self) -> str:
        """Connection string of a new empty database."""
        import psycopg
        from psycopg import sql

        self._number += 1
        name = f"test{self._number}"
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.dsn(name)

    def dsn(self, database: str) -> str:
        """Connection string of a database, with its password."""
        from urllib.parse import quote

        return f"postgresql://{_USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{database}"


@contextmanager
def serving() -> Iterator[Server]:
    """A server for as long as the block runs; users of loopback give a password."""
    from support.ports import free_port

    # A socket's path may have a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    secret = folder / "password"
    try:
        secret.write_text(PASSWORD)
        if os.geteuid() == 0:
            for path in (folder, secret):
                shutil.chown(path, _other_user())
        server = Server(folder, free_port())
        server.run("initdb", "-D", f"{folder}/data", "-U", _USER, "-A", "scram-sha-256", f"--pwfile={secret}", "-N")
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
