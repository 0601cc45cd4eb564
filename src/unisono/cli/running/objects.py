"""What ``unisono run`` submits: the objects of files, or the job of a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from unisono.errors import UnisonoError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unisono.cli.manifests import Manifest
    from unisono.sdk.program import Program


def of_files(files: Sequence[str]) -> list[Manifest]:
    """The objects of the files, with at least one job or pod among them.

    Raises:
        UnisonoError: there is none, or a file is a program and no manifest.

    """
    from unisono.cli.manifests import read
    from unisono.cli.workloads import is_workload, nothing_to_run

    _check_for_programs(files)
    manifests = read(files)
    if not any(is_workload(manifest) for manifest in manifests):
        raise UnisonoError(nothing_to_run(manifests))
    return manifests


def of_program(program: Program, *, local: bool) -> Manifest:
    """The job of a command.

    Args:
        program: the command.
        local: its pods are processes of this machine, with the caller's interpreter and folder.

    Raises:
        BadWork: there is no such program, or it needs an image.

    """
    from unisono.cli.manifests import Manifest
    from unisono.sdk.program_submission import job_of

    return Manifest(job_of(program, local=local).manifest(), "", 0, Path.cwd())


def _check_for_programs(files: Sequence[str]) -> None:
    """A forgotten ``--`` is an error, before a script is read as YAML."""
    import shutil

    first = Path(files[0])
    words = " ".join(files)
    if first.suffix in (".py", ".sh"):
        run = "python" if first.suffix == ".py" else "bash"
        raise click.UsageError(f"{first} is a program and no manifest; run it with: unisono run -- {run} {words}")
    if not first.exists() and "/" not in files[0] and shutil.which(files[0]):
        raise click.UsageError(f"there is no file {first}; to run the program {first}: unisono run -- {words}")
