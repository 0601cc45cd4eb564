"""``unisono restore``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("restore")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--data-dir", type=click.Path(path_type=Path), help="Data directory of the control plane to restore.")
def command(file: Path, data_dir: Path | None) -> None:
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
