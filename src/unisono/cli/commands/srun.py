"""``unisono srun``."""

from __future__ import annotations

import click

from unisono.cli.options import Where
from unisono.cli.slurm.arguments import slurm_options


@click.command("srun", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@slurm_options
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF SRUN] COMMAND...")
def command(where: Where, image: str | None, words: tuple[str, ...]) -> None:
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
