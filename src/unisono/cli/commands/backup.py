"""``unisono backup``."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unisono.cli.options import Where, output_option, run_async, where_options
from unisono.cli.printing import print_json
from unisono.errors import UnisonoError

if TYPE_CHECKING:
    from unisono.apiserver.storage.backup import Backup
    from unisono.standalone.paths import DataDir


@click.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option("--verify", is_flag=True, help="Make no backup: read FILE from beginning to end and say what it holds.")
@output_option("text", "json")
@where_options
def command(file: Path, force: bool, verify: bool, output: str, where: Where) -> None:
    """Copy everything that a control plane stores to FILE, while it runs or not.

    The copy holds all objects, Secrets as well, and no keys: it is readable by its owner alone.
    """
    from unisono.apiserver.storage.backup import check_backup
    from unisono.standalone.paths import DataDir
    from unisono.standalone.store import remember_backup

    if verify:
        raise SystemExit(_verify(file, output))
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
    if output == "json":
        print_json(_told(replace(backup, path=file)))
    else:
        click.echo(f"Wrote {backup.objects} objects to {file}.")
    if not where.kubeconfig:
        remember_backup(data, file.absolute())


def _verify(file: Path, output: str) -> int:
    """Check a file, tell what it holds or what is wrong with it, and answer the exit code."""
    from unisono.apiserver.storage.backup import check_backup
    from unisono.apiserver.storage.files import DamagedStore, StoreError

    try:
        backup = check_backup(file)
    except StoreError as error:
        if output != "json":
            raise
        reported = error.findings if isinstance(error, DamagedStore) else ()
        findings = [asdict(finding) for finding in reported]
        print_json({"path": str(file), "whole": False, "message": str(error), "findings": findings})
        return 1
    if output == "json":
        print_json(_told(backup))
        return 0
    click.echo(f"{file} is whole: {backup.objects} objects, revision {backup.revision}.")
    for kind, count in backup.kinds.items():
        click.echo(f"  {count:>6} {kind}")
    return 0


def _told(backup: Backup) -> dict[str, object]:
    return {
        "path": str(backup.path),
        "whole": True,
        "schemaVersion": backup.version,
        "revision": backup.revision,
        "objects": backup.objects,
        "kinds": backup.kinds,
    }


async def _fetch(where: Where, path: Path) -> None:
    """Ask the running control plane."""
    import os

    from unisono.apiserver.http.meta import PATH
    from unisono.cli.connection import connect

    async with connect(where) as client:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            async for piece in client.stream(PATH, accept="*/*"):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())


def _copy(data: DataDir, path: Path) -> None:
    """Copy the file of a control plane that is stopped, and keep it from starting meanwhile."""
    from unisono.apiserver.storage.database import Database
    from unisono.standalone.store import with_advice

    with data.acquire("backup"), with_advice(data):
        database = Database(data.database)
        database.open()
        try:
            database.backup(path)
        finally:
            database.close()


# ``unisono restore``.


@click.command("restore")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--data-dir", type=click.Path(path_type=Path), help="Data directory of the control plane to restore.")
def restore_command(file: Path, data_dir: Path | None) -> None:
    """Put a backup in the place of what a stopped control plane stores; the old data is kept beside it."""
    from datetime import UTC, datetime

    from unisono.apiserver.storage.backup import restore_backup
    from unisono.standalone.paths import DataDir

    data = DataDir.at(data_dir)
    # Held until the end, so that no control plane starts in between.
    with data.acquire("restore"):
        backup, kept = restore_backup(file.absolute(), data.database, datetime.now(UTC))
    click.echo(f"Restored {backup.objects} objects into {data.root}.")
    if kept is not None:
        click.echo(f"The old data is kept as {kept}.")
