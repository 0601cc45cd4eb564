"""Programs as jobs of the place where they run: processes of this machine, or containers of a cluster."""

from __future__ import annotations

from pathlib import Path

from unisono.sdk.builders import Job
from unisono.sdk.errors import BadWork
from unisono.sdk.program import Program, program_job
from unisono.sdk.surroundings import caller_surroundings


def job_of(program: Program, *, local: bool) -> Job:
    """The job of a program.

    Args:
        program: what to run.
        local: pods are processes of this machine: they get the caller's interpreter, variables and folder, unless the
            program names an image.

    Raises:
        BadWork: there is no such program here, or a cluster needs an image.

    """
    if program.image is None and not local:
        raise BadWork("a cluster runs the program in a container: name an image that holds it with --image (image=).")
    if program.image is None and program.command:
        return program_job(program, caller_surroundings(program.command[0]))
    return program_job(program)


def program_folders(work: object) -> tuple[Path, ...]:
    """Folders besides its own that the processes of a local program must be able to read; none of any other work."""
    if not isinstance(work, Program) or work.image is not None or not work.command:
        return ()
    return caller_surroundings(work.command[0]).folders
