"""``unisono explain``."""

from __future__ import annotations

import click

from unisono.cli.options import Where, output_option, where_options


@click.command("explain")
@click.argument("what", nargs=-1, required=True, metavar="KIND/NAME")
@output_option("text", "json")
@where_options
def command(where: Where, what: tuple[str, ...], output: str) -> None:
    """Say why a job, workload, PodGroup, pod, or all jobs of a queue wait: numbers, who holds it, and the way out.

    KIND is any kind that has pods: job, jobflow, pytorchjob, trainjob, jobset, rayjob, deployment, cronjob, ...
    """
    from unisono.cli.connection import run_async

    run_async(_explain(where, what, output))


async def _explain(where: Where, what: tuple[str, ...], output: str) -> None:
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.explaining import explain, explanation_json, explanation_lines
    from unisono.cli.printing import print_json

    async with connect(where) as client:
        explanation = await explain(client, what, namespace_of(where))
    if output == "json":
        print_json(explanation_json(explanation))
        return
    for line in explanation_lines(explanation):
        click.echo(line)
