"""``unisono backup``."""

from __future__ import annotations

from pathlib import Path

import click

from unisono.cli.options import Where, where_options
from unisono.errors import UnisonoError


@click.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@where_options
def command(file: Path, force: bool, where: Where) -> None:
    """Copy everything that a control plane stores to FILE, while it runs or not.

    The copy holds all objects, Secrets as well, and no keys: it is readable by its owner alone.
    """
    from unisono.apiserver.storage.backup import check_backup
    from unisono.cli.connection import run_async
    from unisono.standalone.paths import DataDir

    if file.exists() and not force:
        raise UnisonoError(f"{file} exists: choose another file, or replace it with --force.")
    if not file.absolute().parent.is_dir():
        raise UnisonoError(f"{file.absolute().parent} is not a directory: make it, or choose another file.")
    data = DataDir.at(where.data_dir)
    temporary = file.with_name(f".{file.name}.part")
    try:
        if where.kubeconfig or data.running_pid() is not None or not data.database.exists():
            run_async(_fetch(where, temporary))
        else:
            _copy(data, temporary)
        backup = check_backup(temporary)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    click.echo(f"Wrote {backup.objects} objects to {file}.")


async def _fetch(where: Where, path: Path) -> None:
    """Ask the running control plane."""
    import os

    from unisono.apiserver.http.backup import PATH
    from unisono.cli.connection import connect

    async with connect(where) as client:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            async for piece in client.stream(PATH, accept="*/*"):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())


def _copy(data: object, path: Path) -> None:
    """Copy the file of a control plane that is stopped, and keep it from starting meanwhile."""
    from unisono.apiserver.storage.database import Database
    from unisono.standalone.paths import DataDir

    assert isinstance(data, DataDir)
    with data.acquire():
        database = Database(data.database)
        database.open()
        try:
            database.backup(path)
        finally:
            database.close()
