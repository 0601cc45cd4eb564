"""``unisono squeue``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from unisono.cli.options import Where, run_async, where_options, where_options_without_n
from unisono.cli.slurm.selecting import pattern_of, selection_options

if TYPE_CHECKING:
    from unisono.sdk.overview.overview import JobLine


@click.command("squeue")
@selection_options
@click.option("-j", "--jobs", default="", metavar="JOB,...", help="Only these jobs; an array stands for its elements.")
@click.option("-l", "--long", is_flag=True, help="Do not shorten reasons to the width of the terminal.")
@click.option("-h", "--noheader", is_flag=True, help="Without the names of the columns.")
@click.option("-A", "--account", default="", help="As --partition: queues stand for accounts.")
@click.option("-o", "--output", "--format", default="text", help="text, json, or a line of Slurm's such as '%i %T %R'.")
@click.option("-O", "--Format", "fields", metavar="FIELD,...", help="Only these columns, such as JobID,State,Reason.")
@click.option(
    "--start", is_flag=True, help="When jobs that wait may start: half of the simulated futures start them by then."
)
@where_options
def command(
    where: Where,
    jobs: str,
    output: str,
    account: str,
    fields: str | None,
    *,
    long: bool,
    noheader: bool,
    start: bool,
    **asked: Any,
) -> None:
    """List jobs that run (R) and wait (PD) with the reason, as Slurm's squeue does; see also 'unisono status'."""
    if account and asked["partition"]:
        raise click.UsageError("--account and --partition both name a queue here; give one of them.")
    if output not in ("text", "json") and "%" not in output:
        raise click.UsageError(f"--output {output}: text, json or a line such as '%i %T %R' is expected.")
    if fields is not None:
        if output != "text":
            raise click.UsageError("--Format and --output both say what is shown; give one of them.")
        output = pattern_of(fields)
    if start and output != "text":
        raise click.UsageError("--start has its own columns; 'unisono whatif -o json' has all that is estimated.")
    asked["partition"] = asked["partition"] or account
    asked["name"] = ",".join(filter(None, (asked["name"], jobs)))
    if start:
        _starts(where, asked, title=not noheader)
        return
    run_async(_squeue(where, asked, output, long=long, title=not noheader))


async def _squeue(where: Where, asked: dict[str, Any], output: str, *, long: bool, title: bool) -> None:
    import shutil
    import sys
    from dataclasses import asdict

    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.overview_lines import not_shown
    from unisono.cli.printing import print_json
    from unisono.cli.slurm.selecting import selection, squeue_lines
    from unisono.sdk.overview.overview import read_overview

    async with connect(where) as client:
        criteria = await selection(client, where, **asked)
        seen = await read_overview(client, namespace_of(where))
    matches = criteria.of(seen)
    for line in (*not_shown(seen, ("podgroups", "pods")), *criteria.unknown(seen)):
        click.echo(line, err=True)
    if output == "json":
        kinds = (("running", "R"), ("waiting", "PD"))
        print_json({name: [asdict(job) for state, job in matches if state == wanted] for name, wanted in kinds})
        return
    pattern = output if "%" in output else ""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() and not long else 0
    for line in squeue_lines(matches, owner=criteria.owner, width=width, pattern=pattern, title=title):
        click.echo(line)


def _starts(where: Where, asked: dict[str, Any], *, title: bool) -> None:
    import time

    from unisono.cli.explaining import estimated_starts
    from unisono.cli.slurm.selecting import squeue_start_lines

    owner, waiting = run_async(_waiting(where, asked))
    estimates = estimated_starts(where, waiting) if waiting else []
    starts, now = {start.key: start.median for start in estimates}, time.time()
    jobs = [(job, now + median if (median := starts.get(key)) is not None else None) for key, job in waiting.items()]
    for line in squeue_start_lines(jobs, owner=owner, title=title):
        click.echo(line)
    if unknown := sum(not start.known for start in estimates):
        message = f"Of {unknown} of these jobs nothing says how long they run: give --time, or unisono.io/run-seconds."
        click.echo(message, err=True)


async def _waiting(where: Where, asked: dict[str, Any]) -> tuple[str, dict[str, JobLine]]:
    """Who owns what has no user, and the jobs that wait, by their PodGroups (``namespace/name``)."""
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.overview_lines import not_shown
    from unisono.cli.slurm.selecting import selection
    from unisono.sdk.overview.overview import read_overview

    async with connect(where) as client:
        criteria = await selection(client, where, **asked)
        seen = await read_overview(client, namespace_of(where))
    for line in (*not_shown(seen, ("podgroups", "pods")), *criteria.unknown(seen)):
        click.echo(line, err=True)
    return criteria.owner, {f"{job.namespace}/{job.group}": job for state, job in criteria.of(seen) if state == "PD"}


# ``unisono sinfo``.


@click.command("sinfo")
@click.option("-p", "--partition", default="", help="Accepted: queues share all nodes.")
@click.option("-N", "--Node", "by_node", is_flag=True, help="A line for each node, in a line of Slurm's, too.")
@click.option("-l", "--long", is_flag=True, help="Accepted: all columns are always shown.")
@click.option("-s", "--summarize", is_flag=True, help="One line for all nodes.")
@click.option("-t", "--states", default="", metavar="STATE,...", help="Only nodes that are idle, mix, alloc, ...")
@click.option("-n", "--nodes", default="", metavar="NODE,...", help="Only these nodes, such as n[1-3].")
@click.option("-e", "--exact", is_flag=True, help="Accepted: only nodes that are alike share a line.")
@click.option("-r", "--responding", is_flag=True, help="Only nodes that answer.")
@click.option("-h", "--noheader", is_flag=True, help="Without the names of the columns.")
@click.option("-o", "--output", "--format", default="text", help="text, json, or a line of Slurm's such as '%n %t %G'.")
@where_options_without_n
async def sinfo_command(
    where: Where,
    partition: str,
    states: str,
    nodes: str,
    output: str,
    *,
    by_node: bool,
    long: bool,
    summarize: bool,
    exact: bool,
    responding: bool,
    noheader: bool,
) -> None:
    """List nodes with their state and what is in use, as Slurm's sinfo does; see also 'unisono status'."""
    from unisono.cli.slurm.selecting import SUMMARY, node_states

    if output not in ("text", "json") and "%" not in output:
        raise click.UsageError(f"--output {output}: text, json or a line such as '%n %t %G' is expected.")
    if partition:
        click.echo(f"{click.style('Note:', fg='yellow')} queues share all nodes; these are all", err=True)
    chosen = {"states": node_states(states), "names": nodes, "responding": responding}
    pattern = output if "%" in output else SUMMARY if summarize and output == "text" else ""
    await _sinfo(where, output, pattern, chosen, by_node=by_node, title=not noheader)


async def _sinfo(
    where: Where, output: str, pattern: str, chosen: dict[str, Any], *, by_node: bool, title: bool
) -> None:
    from dataclasses import asdict

    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.overview_lines import not_shown
    from unisono.cli.printing import print_json
    from unisono.cli.slurm.selecting import chosen_nodes, sinfo_formatted, sinfo_lines
    from unisono.sdk.overview.overview import read_overview

    async with connect(where) as client:
        snapshot = await read_overview(client, namespace_of(where))
    for line in not_shown(snapshot, ("nodes", "pods")):
        click.echo(line, err=True)
    nodes = chosen_nodes(snapshot.nodes, **chosen)
    if output == "json":
        print_json([asdict(node) for node in nodes])
        return
    for line in (
        sinfo_formatted(nodes, pattern, each=by_node, title=title) if pattern else sinfo_lines(nodes, title=title)
    ):
        click.echo(line)
