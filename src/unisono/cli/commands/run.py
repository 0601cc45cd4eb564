"""``unisono run``."""

from __future__ import annotations

from typing import Any

import click

from unisono.cli.options import Where, output_option, where_options_without_n

_WORDS = "unisono.cli.commands.run.words"
_PROGRAM_ONLY = (
    "processes",
    "gpus",
    "cpu",
    "memory",
    "queue",
    "name",
    "launcher",
    "image",
    "env",
    "time_limit",
    "one_of",
)


class RunCommand(click.Command):
    """What follows ``--`` is a command of the user's: no option of it is read here."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words after the first ``--`` apart."""
        if "--" in args:
            place = args.index("--")
            ctx.meta[_WORDS] = args[place + 1 :]
            args = args[:place]
        elif not args:
            raise click.UsageError("nothing to run: name files, or write a command after --.", ctx)
        return super().parse_args(ctx, args)


def _count(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    try:
        number = int(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is no number of processes; a namespace is given with --namespace {value}.", ctx, parameter
        ) from None
    if number < 1:
        raise click.BadParameter("at least 1.", ctx, parameter)
    return number


def _amount(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    from unisono.api.quantity import QuantityError, parse_quantity

    try:
        if parse_quantity(value) > 0:
            return value
        why = "more than 0 is needed"
    except QuantityError:
        short = value.strip().upper().removesuffix("B").removesuffix("I")
        number, unit = short[:-1], short[-1:]
        # As other programs write them: 8GB, 512 MiB.
        recognised = unit in "KMGTP" and number.strip().replace(".", "", 1).isdigit()
        written = f"{number.strip()}{'k' if unit == 'K' else unit}"
        examples = "2 or 500m" if parameter.name == "cpu" else "4Gi or 500M"
        why = f"write {written}, or {number.strip()}{unit}i for powers of 1024" if recognised else f"write {examples}"
    raise click.BadParameter(f"{value!r} is no amount: {why}.", ctx, parameter)


def _kinds(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    from unisono.api.one_of import kinds_of

    try:
        kinds_of(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", ctx, parameter) from None
    return value


@click.command("run", cls=RunCommand)
@click.argument("files", nargs=-1, metavar="FILE... | -- COMMAND...")
@click.option("-n", "--processes", callback=_count, metavar="N", help="Processes of COMMAND, which start together.")
@click.option("--gpus", type=click.IntRange(0), help="Whole GPUs for each process.")
@click.option("--cpu", callback=_amount, help="Cores for each process, such as 2 or 500m.  [default: 1]")
@click.option("--memory", callback=_amount, help="Memory for each process, such as 4Gi; one that needs more is ended.")
@click.option("-q", "--queue", help="Queue of COMMAND's job.  [default: default]")
@click.option("--name", help="Name of COMMAND's job.  [default: the script's]")
@click.option("--replace", is_flag=True, help="Delete an earlier job of the same name first.")
@click.option(
    "--launcher",
    type=click.Choice(("torch", "mpi", "jax", "none")),
    help="Whose variables the processes get: MASTER_ADDR, RANK, ...  [default: torch]",
)
@click.option("--image", help="Run COMMAND in containers of this image: a cluster needs one.")
@click.option("-e", "--env", multiple=True, metavar="NAME[=VALUE]", help="A variable of COMMAND; without value, yours.")
@click.option("--time-limit", type=click.IntRange(1), metavar="SECONDS", help="End processes that run longer.")
@click.option(
    "--one-of",
    callback=_kinds,
    metavar="LABEL=VALUE,...",
    help="Nodes with the first of these labels that has room for all processes, or else with the next.",
)
@click.option("--fleet", default="", metavar="NAME", help="Run in the clusters of this Fleet; its hub is the server.")
@click.option("--dry-run", is_flag=True, help="Print what would be created, and create nothing.")
@click.option("--detach", is_flag=True, help="Return when the jobs are created.")
@click.option("--logs/--no-logs", default=True, show_default=True, help="Copy the logs of the jobs' containers.")
@click.option("--watch", is_flag=True, help="Show what the processes use: processors, memory and GPUs.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Give up after so many seconds.")
@click.option(
    "--nodes",
    "nodes_file",
    type=click.Path(exists=True, dir_okay=False),
    help="Add simulated nodes (see 'unisono up').",
)
@output_option("text", "json", "yaml")
@where_options_without_n
def command(
    where: Where,
    files: tuple[str, ...],
    replace: bool,
    dry_run: bool,
    detach: bool,
    logs: bool,
    watch: bool,
    timeout: float | None,
    nodes_file: str | None,
    output: str,
    fleet: str,
    **program: Any,
) -> None:
    """Run a command as a gang of processes, or submit the objects of files; follow the jobs to the end.

    \b
    unisono run -- python train.py --epochs 3
    unisono run -n 4 --gpus 1 --queue research -- python train.py
    unisono run job.yaml

    COMMAND runs with your own interpreter, virtual environment and working folder. Where no control plane is running
    and none is named, a private one is started for this command and taken away afterwards. The exit code is 0 only if
    every job completed, 124 after --timeout.
    """  # noqa: D301 - click reads the character, not its name
    ctx = click.get_current_context()
    words = ctx.meta.get(_WORDS)
    _check(ctx, files, words, program)
    if output == "yaml" and not dry_run:
        raise click.UsageError("-o yaml prints what would be created: add --dry-run.")
    if watch and detach:
        raise click.UsageError("--watch follows the jobs, and --detach does not; give one of them.")
    from unisono.cli.running.session import Request, run

    made = None if words is None else _program(words, program)
    if dry_run:
        _print(where, files, made, output, fleet)
        return
    request = Request(where, files, made, logs, timeout, nodes_file, output, replace, detach, fleet=fleet, watch=watch)
    raise SystemExit(run(request))


def _check(ctx: click.Context, files: tuple[str, ...], words: list[str] | None, program: dict[str, Any]) -> None:
    if words is None:
        given = next((name for name in _PROGRAM_ONLY if program[name] not in (None, ())), None)
        if given is not None:
            option = next(each for each in ctx.command.params if each.name == given)
            raise click.UsageError(f"{option.opts[-1]} is for a command after --, and here are only files.")
        if not files:
            raise click.UsageError("nothing to run: name files, or write a command after --.")
    elif files:
        raise click.UsageError(
            f"{files[0]} stands before --: give files, or a command after --, and options of unisono before it."
        )
    elif not words:
        raise click.UsageError("the command is missing: write it after --, such as -- python train.py.")


def _program(words: list[str], given: dict[str, Any]) -> Any:
    from unisono.sdk.jobs.program import Program

    return Program(
        tuple(words),
        given["processes"] or 1,
        given["name"],
        given["launcher"] or "torch",
        given["queue"] or "default",
        given["cpu"],
        given["memory"],
        given["gpus"],
        given["image"],
        dict(_variable(text) for text in given["env"]),
        time_limit=given["time_limit"],
        one_of=given["one_of"] or "",
    )


def _variable(text: str) -> tuple[str, str]:
    import os

    name, assigned, value = text.partition("=")
    if not name:
        raise click.UsageError(f"--env {text!r} has no name: write NAME=VALUE, or NAME for your own value.")
    if not assigned:
        if name not in os.environ:
            raise click.UsageError(f"--env {name}: you have no variable of that name; write {name}=VALUE.")
        value = os.environ[name]
    return name, value


def _print(where: Where, files: tuple[str, ...], program: Any, output: str, fleet: str) -> None:
    """The objects that a run would create, as YAML or JSON."""
    from unisono.cli.printing import print_json, print_yaml
    from unisono.cli.running.place import is_cluster
    from unisono.cli.running.submitting import marked, of_files, of_program

    if program is None:
        values = [manifest.value for manifest in marked(of_files(files), fleet)]
    else:
        value = marked([of_program(program, local=not is_cluster(where))], fleet)[0].value
        if where.namespace:
            value["metadata"]["namespace"] = where.namespace
        values = [value]
    if output == "json":
        print_json(values[0] if len(values) == 1 else {"apiVersion": "v1", "kind": "List", "items": values})
        return
    for number, value in enumerate(values):
        if number:
            click.echo("---")
        print_yaml(value)
