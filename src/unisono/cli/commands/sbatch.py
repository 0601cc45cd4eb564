"""``unisono sbatch``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from unisono.cli.options import Where
from unisono.cli.slurm.arguments import slurm_options

if TYPE_CHECKING:
    from unisono.cli.slurm.script import Batch
    from unisono.kube.http import HttpClient
    from unisono.sdk.follow.events import Target
    from unisono.sdk.jobs.program import Program

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

    base = elements[0].base
    asyncio.run(_dependencies(where, batch, base))
    created: list[Target] = []
    heard: set[str] = set()
    for place, element in enumerate(elements):
        if batch.at_once:
            try:
                asyncio.run(_room_for_one(where, created, batch.at_once))
            except KeyboardInterrupt:
                click.echo(f"{len(elements) - place} of {len(elements)} elements are not submitted.", err=True)
                raise
        request = Request(
            where,
            program=element.program,
            detach=True,
            called=element.called,
            tell=created.append,
            silent=batch.parsable,
            heard=heard,
        )
        if code := run(request):
            raise SystemExit(code)
    if batch.parsable:
        # As --dependency takes them: afterok:NAME:NAME.
        click.echo(":".join(target.name for target in created))


async def _room_for_one(where: Where, created: list[Target], at_once: int) -> None:
    """Wait until fewer of the array's elements are there than may run at once; what is gone has ended."""
    from unisono.api.conditions import ENDED
    from unisono.api.kinds import JOBS
    from unisono.cli.connection import connect
    from unisono.errors import NotFound

    if len(created) < at_once:
        return
    async with connect(where) as client:

        async def goes_on(target: Target) -> bool:
            try:
                state = (await client.get(JOBS, target.name, target.namespace)).status.state
            except NotFound:
                return False
            return state is None or state.phase not in ENDED

        told = False
        while sum([await goes_on(target) for target in created]) >= at_once:
            if not told:
                click.echo(
                    f"Waiting: {at_once} elements are there, and %{at_once} allows no more at once ...", err=True
                )
                told = True
            await asyncio.sleep(_POLL_SECONDS)


def _print(where: Where, programs: list[Program]) -> None:
    from unisono.cli.printing import print_yaml
    from unisono.cli.running.place import is_cluster
    from unisono.cli.running.submitting import of_program

    for number, program in enumerate(programs):
        if number:
            click.echo("---")
        print_yaml(of_program(program, local=not is_cluster(where)).value)


async def _dependencies(where: Where, batch: Batch, base: str) -> None:
    """Wait for the jobs that come first.

    Raises:
        UnisonoError: one did not end as it was to.
        NotFound: there is none of that name.

    """
    from unisono.cli.connection import connect, namespace_of
    from unisono.errors import UnisonoError

    if not batch.after:
        return
    async with connect(where) as client:
        told: set[str] = set()
        while True:
            states = [await _state(client, namespace_of(where), how, name, base) for how, name in batch.after]
            failed = [text for met, text in states if met is False]
            if failed and (not batch.any_of or len(failed) == len(states)):
                raise UnisonoError(f"Nothing was submitted: {failed[0]}.")
            met = [each is True for each, _ in states]
            if any(met) if batch.any_of else all(met):
                return
            waiting = [text for each, text in states if each is None]
            for text in waiting:
                if text not in told:
                    click.echo(f"Waiting: {text} ...", err=True)
            told |= set(waiting)
            await asyncio.sleep(_POLL_SECONDS)


async def _state(client: HttpClient, namespace: str, how: str, name: str, base: str) -> tuple[bool | None, str]:
    """Whether a dependency is met, None where that is open, and what is to be said of it."""
    from unisono.api.conditions import ENDED, SUCCEEDED
    from unisono.api.kinds import JOBS
    from unisono.cli.slurm.batches import BASE_NAME
    from unisono.cli.slurm.selecting import jobs_called

    if how == "singleton":
        every = (await client.list(JOBS, namespace)).items
        jobs = [job for job in every if (job.metadata.labels or {}).get(BASE_NAME) == base]
    else:
        jobs = await jobs_called(client, namespace, name)
    phases = {job.metadata.name: (job.status.state.phase if job.status.state else None) or "Pending" for job in jobs}
    for job, phase in phases.items():
        if phase not in ENDED and not (how == "after" and phase == "Running"):
            return None, f"job/{job} is {phase.lower()}"
        if how in ("afterok", "aftercorr") and phase != SUCCEEDED:
            return False, f"job/{job} ended as {phase}, not well"
    if how == "afternotok" and phases and all(phase == SUCCEEDED for phase in phases.values()):
        return False, f"job/{next(iter(phases))} ended well"
    return True, ""


# ``unisono srun``.


@click.command("srun", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@slurm_options
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF SRUN] COMMAND...")
def srun_command(where: Where, image: str | None, words: tuple[str, ...]) -> None:
    """Run a command as a gang of processes and wait for it, as Slurm's srun does: 'unisono run' with Slurm's options.

    Options of srun are -N, -n, -c, -G, -t, -J, -p, -D and their long names; those of unisono stand before them.
    """
    from unisono.cli.running.place import is_cluster
    from unisono.cli.running.session import Request, run
    from unisono.cli.slurm.arguments import command_elements

    batch, [element] = command_elements(words, image, local=not is_cluster(where))
    for note in batch.notes:
        click.echo(f"{click.style('Note:', fg='yellow')} {note}", err=True)
    raise SystemExit(run(Request(where, program=element.program, called=element.called)))
