"""``unisono explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from unisono.cli.options import Where, output_option, run_async, where_options

if TYPE_CHECKING:
    from unisono.sdk.fixes.fix import Fix
    from unisono.sdk.reasons.explanation import Explanation
    from unisono.simulator.forecast.forecast import Start


@click.command("explain")
@click.argument("what", nargs=-1, required=True, metavar="JOB|KIND/NAME")
@click.option("--apply", "number", type=click.IntRange(min=1), metavar="N", help="Carry out fix N.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask before a fix is carried out.")
@click.option("--dry-run", is_flag=True, help="Let the server check the fix, and change nothing.")
@click.option("--estimate", is_flag=True, help="Also say when it may start: simulate what may come, for some seconds.")
@output_option("text", "json")
@where_options
def command(
    where: Where, what: tuple[str, ...], number: int | None, output: str, *, yes: bool, dry_run: bool, estimate: bool
) -> None:
    """Say why a job, workload, PodGroup, pod, or all jobs of a queue wait: numbers, who holds it, and the way out.

    A name alone is a job's. KIND is any kind that has pods: job, jobflow, pytorchjob, trainjob, jobset, rayjob,
    deployment, cronjob, ...

    Each fix has a number and the commands that carry it out; --apply N carries it out with your rights.
    """
    if number is None and (yes or dry_run):
        raise click.UsageError("--yes and --dry-run go with --apply N.")
    if number is not None and estimate:
        raise click.UsageError("--estimate and --apply do not go together.")
    from unisono.standalone.logs import configure_logs

    configure_logs(level="critical")  # a copy of the cluster works in this process, and this is no log of it
    if number is not None:
        run_async(_apply(where, what, number, yes=yes, dry_run=dry_run))
        return
    explanation = run_async(_explained(where, what))
    starts = _starts(where, explanation) if estimate else None
    _show(where, explanation, starts, output)


async def _explained(where: Where, what: tuple[str, ...]) -> Explanation:
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.explaining import explain

    async with connect(where) as client:
        return await explain(client, what, namespace_of(where), search=True)


def _starts(where: Where, explanation: Explanation) -> list[Start]:
    from unisono.cli.explaining import estimated_starts

    groups = dict.fromkeys(verdict.job for verdict in explanation.verdicts)
    return estimated_starts(where, groups) if groups else []


def _show(where: Where, explanation: Explanation, starts: list[Start] | None, output: str) -> None:
    from unisono.cli.explaining import explanation_json, explanation_lines
    from unisono.cli.printing import print_json

    if output == "json":
        result = explanation_json(explanation)
        if starts is not None:
            from unisono.simulator.forecast.whatif import start_json

            result["estimated_starts"] = [{"podGroup": each.key, **start_json(each)} for each in starts]
        print_json(result)
        return
    for line in explanation_lines(explanation):
        click.echo(line)
    if starts is not None:
        from unisono.cli.explaining import lines

        for line in lines(starts):
            click.echo(line)
    if any(fix.operations for fix in explanation.fixes):
        from unisono.cli.connection import namespace_of

        place = "" if explanation.kind == "Queue" else f" -n {namespace_of(where)}"
        click.echo(f"  apply a fix with: unisono explain {explanation.title}{place} --apply N (in a script with --yes)")


async def _apply(where: Where, what: tuple[str, ...], number: int, *, yes: bool, dry_run: bool) -> None:
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.explaining import explain, fix_lines
    from unisono.sdk.fixes.applying import apply_fix

    async with connect(where) as client:
        explanation = await explain(client, what, namespace_of(where), search=True)
        fix = _chosen(explanation, number)
        for line in fix_lines([fix], first=number):
            click.echo(line)
        if fix.operations and not (yes or dry_run):
            _ask(fix)
        await apply_fix(client, fix, dry_run=dry_run)
    click.echo("The server would accept it; nothing was changed." if dry_run else "Done.")


def _chosen(explanation: Explanation, number: int) -> Fix:
    if number > len(explanation.fixes):
        count = len(explanation.fixes)
        subject = f"{count} fix{'es are' if count != 1 else ' is'}" if count else "No fix is"
        raise click.UsageError(f"{subject} known for {explanation.title}; ask again without --apply.")
    return explanation.fixes[number - 1]


def _ask(fix: Fix) -> None:
    """On a terminal the user decides; elsewhere --yes has to say so."""
    import sys

    if not sys.stdin.isatty():
        raise click.UsageError("This is no terminal: say --yes to carry the fix out.")
    again = any(operation.verb == "replace" for operation in fix.operations)
    question = "Delete the object and create it again?" if again else "Carry it out?"
    click.confirm(question, abort=True)
