"""``unisono job``: jobs with ``vcctl``'s verbs and flags."""

from __future__ import annotations

import shlex
from typing import Any

import click

from unisono.cli.options import Where
from unisono.cli.vcctl.options import (
    amounts,
    cluster_options,
    everywhere_option,
    name_option,
    namespace_option,
    print_option,
)

DEFAULT_AMOUNTS = "cpu=1000m,memory=100Mi"


@click.group("job")
def command() -> None:
    """Run, list, view, suspend, resume and delete jobs, as vcctl does; KIND/NAME means a job of another kind."""


@command.command("run")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("-N", "--name", help="Name of the job.")
@click.option("-i", "--image", default="busybox", show_default=True, help="Image of the container.")
@click.option("-c", "--command", "line", help="What the container runs; or give it after --.")
@click.option("-r", "--replicas", type=click.IntRange(1), default=1, show_default=True, help="Number of pods.")
@click.option("-m", "--min", "minimum", type=click.IntRange(1), help="Pods that start together.  [default: 1]")
@click.option("-R", "--requests", default=DEFAULT_AMOUNTS, show_default=True, callback=amounts, help="Per pod.")
@click.option("-L", "--limits", default=DEFAULT_AMOUNTS, show_default=True, callback=amounts, help="Per pod.")
@click.option("-S", "--scheduler", default="volcano", show_default=True, help="Scheduler of the pods.")
@click.option("-q", "--queue", help="Queue of the job.  [default: default]")
@click.option("-f", "--filename", help="A YAML or JSON file with the job, instead of all these.")
@namespace_option
@cluster_options
def run(where: Where, filename: str | None, name: str | None, **options: Any) -> None:
    """Create a job of equal pods, or that of a file; returns at once ('unisono run FILE' follows a job to its end)."""
    from unisono.cli.connection import run_async
    from unisono.cli.vcctl.jobs import create, flag_job

    if bool(filename) == bool(name):
        raise click.UsageError("job name cannot be left blank: give --name NAME, or a file with --filename.")
    line, words = options.pop("line"), options.pop("words")
    if line and words:
        raise click.UsageError("--command and the words after -- both say what to run; give one of them.")
    job = flag_job(name, command=tuple(words) or tuple(shlex.split(line or "")), **options) if name else None
    run_async(create(where, filename, job))


@command.command("list")
@click.option("-q", "--queue", default="", help="Only jobs of this queue.")
@click.option("-S", "--scheduler", default="", help="Only jobs of this scheduler.")
@click.option("--selector", default="", help="Only jobs whose name contains this text.")
@everywhere_option
@print_option("text", "json", "yaml")
@namespace_option
@cluster_options
def list_(where: Where, all_namespaces: bool, output: str, **wanted: str) -> None:
    """List Volcano's Jobs with their phase and the number of their pods by state ('unisono get' lists other kinds)."""
    from unisono.cli.connection import run_async
    from unisono.cli.vcctl.jobs import show_list

    run_async(show_list(where, all_namespaces, output, **wanted))


@command.command("view")
@name_option("-N", "job")
@print_option("text", "json", "yaml")
@namespace_option
@cluster_options
def view(where: Where, name: str, output: str) -> None:
    """Show a job: spec, status, why it waits, and its events."""
    from unisono.cli.connection import run_async
    from unisono.cli.vcctl.jobs import show_one

    run_async(show_one(where, name, output))


@command.command("suspend")
@name_option("-N", "job")
@namespace_option
@cluster_options
def suspend(where: Where, name: str) -> None:
    """Stop a job's pods and give their resources back, until it is resumed."""
    from unisono.cli.connection import run_async
    from unisono.cli.vcctl.jobs import order

    run_async(order(where, name, "AbortJob"))
    click.echo(f"suspend job {name} successfully")


@command.command("resume")
@name_option("-N", "job")
@namespace_option
@cluster_options
def resume(where: Where, name: str) -> None:
    """Start a suspended job again."""
    from unisono.cli.connection import run_async
    from unisono.cli.vcctl.jobs import order

    run_async(order(where, name, "ResumeJob"))
    click.echo(f"resume job {name} successfully")


@command.command("delete")
@name_option("-N", "job")
@namespace_option
@cluster_options
def delete(where: Where, name: str) -> None:
    """Delete a job with its pods."""
    from unisono.cli.connection import run_async
    from unisono.cli.vcctl.jobs import remove

    run_async(remove(where, name))
    click.echo(f"delete job {name} successfully")
