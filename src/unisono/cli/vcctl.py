"""Requests that several of ``vcctl``'s commands make."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from unisono.api.groups.batch import Job
from unisono.api.keys import JOB_TYPE
from unisono.cli.options import Command, control_plane_options, option
from unisono.sdk.overview.queues import PHASES, QueueView

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.cli.options import Where
    from unisono.kube.http import HttpClient

# Requests that several of these commands make.


# Options with ``vcctl``'s names and letters.


def cluster_options(function: Command) -> Command:
    """``--data-dir``, ``-k/--kubeconfig`` and ``--context``; the command gets one ``where``."""
    return control_plane_options(function, ("-k", "--kubeconfig"))


def namespace_option(function: Command) -> Command:
    """``-n/--namespace``; goes above `cluster_options`."""
    text = "Namespace.  [default: that of the kubeconfig, else default]"
    return click.option("-n", "--namespace", help=text)(function)


def everywhere_option(function: Command) -> Command:
    """``-A/--all-namespaces``."""
    return click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")(function)


def print_option(*choices: str) -> Callable[[Command], Command]:
    """``-o/--output``."""
    return option("-o", "--output", type=click.Choice(choices), default=choices[0], help="How to print.")


def name_option(letter: str, what: str) -> Callable[[Command], Command]:
    """One name, as ``vcctl`` takes it (``-N NAME``) or as an argument; the command gets ``name``."""

    def decorate(function: Command) -> Command:
        @click.argument("given", required=False, metavar="[NAME]")
        @click.option(letter, "--name", help=f"Name of the {what}; the same as the argument.")
        @wraps(function)
        def wrapper(*args: Any, given: str | None, name: str | None, **kwargs: Any) -> Any:
            if bool(given) == bool(name):
                raise click.UsageError(f"Say once which {what}: NAME, or {letter} NAME.")
            return function(*args, name=given or name, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def amounts(_: click.Context, parameter: click.Parameter, text: str | None) -> dict[str, str]:
    """Callback of options such as ``--requests cpu=1,memory=1Gi``: quantities by resource name."""
    from unisono.api.quantity import QuantityError, parse_quantity

    quantities: dict[str, str] = {}
    for part in filter(None, (text or "").split(",")):
        name, equals, amount = (piece.strip() for piece in part.partition("="))
        try:
            parse_quantity(amount)
        except QuantityError:
            equals = ""
        if not name or not equals or name in quantities:
            raise click.BadParameter(
                f"'{part}' is not RESOURCE=AMOUNT, such as cpu=1 or memory=1Gi, each resource once.", param=parameter
            )
        quantities[name] = amount
    return quantities


# Tables with ``vcctl``'s columns and widths, of what the API serves (pure).

QUEUE_WIDTHS = (25, 8, 8, 8, 8, 8, 8, 8, 8)
JOB_WIDTHS = (15, 12, 12, 12, 6, 10, 10, 12, 10, 12, 10)
JOB_HEADERS = (
    "Creation",
    "Phase",
    "JobType",
    "Replicas",
    "Min",
    "Pending",
    "Running",
    "Succeeded",
    "Failed",
    "Unknown",
    "RetryCount",
)
GAP = 3


def lines(headers: Sequence[str], rows: Sequence[Sequence[Any]], widths: Sequence[int]) -> list[str]:
    """A table; a column is wider than ``widths`` where a value needs it, so that columns never run together."""
    table = [tuple(headers), *(tuple(str(value) for value in row) for row in rows)]
    needed = [
        max(width, *(len(row[index]) + 1 for row in table)) if width else max(len(row[index]) for row in table) + GAP
        for index, width in enumerate(widths)
    ]
    return ["".join(cell.ljust(width) for cell, width in zip(row, needed, strict=True)).rstrip() for row in table]


def job_lines(jobs: Iterable[Job], *, namespaces: bool) -> list[str]:
    """One line per job, below the headings."""
    lead = ("Namespace", "Name") if namespaces else ("Name",)
    rows = [
        ((job.metadata.namespace or "", *_job_row(job)) if namespaces else _job_row(job))
        for job in sorted(jobs, key=lambda job: (job.metadata.namespace or "", job.metadata.name))
    ]
    return lines((*lead, *JOB_HEADERS), rows, (*(0 for _ in lead), *JOB_WIDTHS))


def _job_row(job: Job) -> tuple[Any, ...]:
    status = job.status
    counts = (status.pending, status.running, status.succeeded, status.failed, status.unknown, status.retry_count)
    return (
        job.metadata.name,
        (job.metadata.creation_timestamp or "")[:10],
        status.state.phase or "",
        (job.metadata.labels or {}).get(JOB_TYPE, "Batch"),
        sum(task.replicas or 0 for task in job.spec.tasks or ()),
        job.spec.min_available or 0,
        *(count or 0 for count in counts),
    )


def queue_lines(views: Iterable[QueueView]) -> list[str]:
    """One line per queue, below the headings."""
    rows = [
        (
            view.name,
            view.weight,
            view.state,
            view.parent,
            *(view.groups.get(phase, 0) if view.groups else "-" for phase in PHASES),
        )
        for view in views
    ]
    return lines(("Name", "Weight", "State", "Parent", *PHASES), rows, QUEUE_WIDTHS)


def flow_lines(items: Iterable[dict[str, Any]], *, phases: bool, now: float | None = None) -> list[str]:
    """One line per job flow (with its phase and age) or job template."""
    from unisono.apiserver.tables.values import age

    moment = time.time() if now is None else now
    rows = []
    for item in sorted(items, key=lambda item: (item["metadata"].get("namespace", ""), item["metadata"]["name"])):
        metadata = item["metadata"]
        row = [metadata["name"], metadata.get("namespace", "")]
        if phases:
            state = (item.get("status") or {}).get("state") or {}
            row += [state.get("phase", ""), age(metadata.get("creationTimestamp"), moment)]
        rows.append(row)
    headers = ("Name", "Namespace", *(("Phase", "Age") if phases else ()))
    return lines(headers, rows, (0,) * len(headers))


def pod_lines(table: dict[str, Any], rows: Sequence[dict[str, Any]], *, namespaces: bool) -> list[str]:
    """Rows of the server's table of pods, with ``vcctl``'s columns."""
    names = [column["name"] for column in table.get("columnDefinitions") or []]
    indices = [names.index(name) for name in ("Name", "Ready", "Status", "Restarts", "Age")]
    shown = [
        (
            *([row["object"]["metadata"].get("namespace", "")] if namespaces else []),
            *(row["cells"][index] for index in indices),
        )
        for row in rows
    ]
    headers = (*(("Namespace",) if namespaces else ()), "Name", "Ready", "Status", "Restart", "Age")
    return lines(headers, shown, (0,) * len(headers))


@asynccontextmanager
async def connected(where: Where) -> AsyncIterator[tuple[HttpClient, str]]:
    """A client, and the namespace that is meant."""
    from unisono.cli.connection import connect, namespace_of

    async with connect(where) as client:
        yield client, namespace_of(where)


async def items(client: HttpClient, kind: Kind[Any], namespace: str | None) -> list[dict[str, Any]]:
    """All objects of a kind as plain values, each with apiVersion and kind, without ``managedFields``."""
    from unisono.cli.printing import without_managed_fields
    from unisono.kube.discovery import request_json

    document = await request_json(client, "GET", kind.path(namespace))
    return [
        without_managed_fields({"apiVersion": kind.api_version, "kind": kind.kind, **item})
        for item in document.get("items") or []
    ]


async def item(client: HttpClient, kind: Kind[Any], namespace: str | None, name: str) -> dict[str, Any]:
    """One object as a plain value, without ``managedFields``.

    Raises:
        NotFound: there is none.
    """
    from unisono.cli.printing import without_managed_fields
    from unisono.kube.discovery import request_json

    return without_managed_fields(await request_json(client, "GET", kind.path(namespace, name)))


async def say_nothing_found(client: HttpClient, queue: str = "") -> None:
    """What ``vcctl`` says of an empty list, and whether that is because there is no such queue."""
    from unisono.api.kinds import QUEUES
    from unisono.errors import ApiError, NotFound

    click.echo("No resources found")
    if not queue:
        return
    try:
        await client.get(QUEUES, queue)
    except NotFound:
        click.echo(f"There is no queue {queue}: 'unisono queue list' shows those that there are.", err=True)
    except ApiError:
        # Who may not read queues has got the answer already.
        return


def show(output: str, document: dict[str, Any] | list[dict[str, Any]], text: list[str]) -> None:
    """Print an object, or objects as a List: as ``text`` lines, or as JSON or YAML."""
    from unisono.cli.printing import print_json, print_yaml

    if output == "text":
        click.echo("\n".join(text))
        return
    value = {"apiVersion": "v1", "kind": "List", "items": document} if isinstance(document, list) else document
    (print_json if output == "json" else print_yaml)(value)


async def create_all(where: Where, files: tuple[str, ...], kinds: tuple[str, ...], word: str) -> None:
    """Create the objects of files; one that the server refuses does not hold up the others.

    Raises:
        UnisonoError: a file holds an object of another kind, or some could not be created.
    """
    from unisono.cli.applying import carry_out, create
    from unisono.cli.manifests import read
    from unisono.errors import UnisonoError

    manifests = read(files)
    for manifest in manifests:
        if manifest.kind not in kinds:
            raise UnisonoError(f"{manifest.where}: here is a {manifest.kind}, and '{word}' takes {' or '.join(kinds)}.")
    async with connected(where) as (client, namespace):
        await carry_out(create, client, manifests, namespace, lambda done: click.echo(done.line))
