"""``unisono sbatch``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from unisono.cli.options import Where
from unisono.cli.slurm.arguments import slurm_options

if TYPE_CHECKING:
    from unisono.cli.slurm.script import Batch
    from unisono.sdk.events import Target
    from unisono.sdk.program import Program

_POLL_SECONDS = 1.0


@click.command("sbatch", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@slurm_options
@click.option("--dry-run", is_flag=True, help="Print the jobs as YAML, and create nothing.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF SBATCH] [SCRIPT [ARGUMENTS...]]")
def command(where: Where, image: str | None, dry_run: bool, words: tuple[str, ...]) -> None:
    """Submit a script with #SBATCH lines as a job and return, as Slurm's sbatch does.

    Options of sbatch may stand before SCRIPT, too; what is not supported is told. SCRIPT may come through a pipe, too;
    --wrap COMMAND brings it along. The script runs once, on the first node; srun in it runs tasks on all.
    """
    from unisono.cli.running.place import is_cluster
    from unisono.cli.slurm.arguments import script_elements

    batch, elements = script_elements(words, image, local=not is_cluster(where))
    for note in batch.notes:
        click.echo(f"{click.style('Note:', fg='yellow')} {note}", err=True)
    if dry_run:
        _print(where, [element.program for element in elements])
        return
    from unisono.cli.running.session import Request, run

    asyncio.run(_dependencies(where, batch))
    created: list[Target] = []
    tell = created.append if batch.parsable else None
    for element in elements:
        code = run(Request(where, program=element.program, detach=True, called=element.called, tell=tell))
        if code:
            raise SystemExit(code)
    if batch.parsable:
        # As --dependency takes them: afterok:NAME:NAME.
        click.echo(":".join(target.name for target in created))


def _print(where: Where, programs: list[Program]) -> None:
    from unisono.cli.printing import print_yaml
    from unisono.cli.running.place import is_cluster
    from unisono.cli.running.submitting import of_program

    for number, program in enumerate(programs):
        if number:
            click.echo("---")
        print_yaml(of_program(program, local=not is_cluster(where)).value)


async def _dependencies(where: Where, batch: Batch) -> None:
    """Wait for the jobs that come first.

    Raises:
        UnisonoError: one did not end as it was to.
        NotFound: there is none of that name.

    """
    if not batch.after:
        return
    from unisono.api.job_state import ENDED, SUCCEEDED
    from unisono.api.kinds import JOBS
    from unisono.cli.connection import connect, namespace_of
    from unisono.errors import UnisonoError

    async with connect(where) as client:
        for how, name in batch.after:
            told = False
            while True:
                state = (await client.get(JOBS, name, namespace_of(where))).status.state
                phase = (state.phase if state else None) or "Pending"
                if phase in ENDED or (how == "after" and phase == "Running"):
                    break
                if not told:
                    told = True
                    click.echo(f"Waiting for job/{name}, which is {phase.lower()} ...", err=True)
                await asyncio.sleep(_POLL_SECONDS)
            if how == "afterok" and phase != SUCCEEDED:
                raise UnisonoError(f"Nothing was submitted: job/{name} ended as {phase}, not well.")
