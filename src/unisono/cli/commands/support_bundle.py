"""``unisono support-bundle``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from unisono.cli.options import Where, output_option, where_options

if TYPE_CHECKING:
    import tarfile

    from unisono.cli.support import Redaction


@click.command("support-bundle")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=Path("unisono-support.tar.gz"))
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@output_option("text", "json")
@where_options
def command(file: Path, force: bool, output: str, where: Where) -> None:
    """Collect state, configuration, logs and metrics for a report into FILE, without secrets.

    --namespace is where the components of an installation run (default: unisono-system). Secrets are not read. Values
    of environment variables, commands, arguments, inline files and unknown annotations are replaced by REDACTED, also
    where logs and messages repeat them. Names and labels stay: look into the file before you hand it on.
    """
    from unisono.cli.connection import run_async
    from unisono.cli.printing import print_json
    from unisono.cli.support import Redaction
    from unisono.errors import UnisonoError

    if file.exists() and not force:
        raise UnisonoError(f"{file} exists: choose another file, or replace it with --force.")
    if not file.absolute().parent.is_dir():
        raise UnisonoError(f"{file.absolute().parent} is not a directory: make it, or choose another file.")
    redaction = Redaction()
    names, problems = run_async(_collect(where, file, redaction))
    if output == "json":
        print_json({"path": str(file), "files": names, "redacted": redaction.hidden, "problems": problems})
        return
    click.echo(f"Wrote {len(names)} files to {file}.")
    for problem in problems:
        click.echo(f"  not read: {problem}")


async def _collect(where: Where, file: Path, redaction: Redaction) -> tuple[list[str], list[str]]:
    """Read everything into a folder first: what is hidden in the last object is hidden in the first file, too."""
    import tempfile

    from unisono.cli.connection import connect
    from unisono.cli.support import Collector
    from unisono.install.workloads import NAMESPACE
    from unisono.standalone.paths import DataDir

    data = DataDir.at(where.data_dir)
    local = not (where.kubeconfig or where.kubectl) and data.kubeconfig.exists()
    with tempfile.TemporaryDirectory(prefix="unisono-support-") as folder:
        read: dict[str, Path] = {}

        def keep(name: str, text: str) -> None:
            path = read[name] = Path(folder, str(len(read)))
            path.write_text(text, encoding="utf-8", errors="replace")

        async with connect(where) as client:
            collector = Collector(client, where.namespace or NAMESPACE, redaction)
            async for name, text in collector.files(data.root if local else None):
                click.echo(f"{name} ({len(text):,} characters)", err=True)
                keep(name, text)
        names = list(read)
        keep("problems.txt", "".join(f"{each}\n" for each in collector.problems))
        _pack(read, file, redaction)
    return names, [redaction.scrub(each) for each in collector.problems]


def _pack(read: dict[str, Path], file: Path, redaction: Redaction) -> None:
    """Scrub each file and put it into the archive, which appears when it is whole and is its owner's alone."""
    import os
    import tarfile

    temporary = file.with_name(f".{file.name}.part")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as target, tarfile.open(fileobj=target, mode="w:gz") as archive:
            for name, path in read.items():
                path.write_text(redaction.scrub(path.read_text(encoding="utf-8")), encoding="utf-8")
                archive.add(path, f"unisono-support/{name}", filter=_anonymous)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Who collected does not matter."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
