"""``unisono explain``."""

from __future__ import annotations

from typing import Any

import click

from unisono.cli.options import Where, output_option, where_options
from unisono.errors import UnisonoError

EXPLAINED = ("Job", "PodGroup", "Pod", "Queue")


@click.command("explain")
@click.argument("what", nargs=-1, required=True, metavar="KIND/NAME")
@output_option("text", "json")
@where_options
def command(where: Where, what: tuple[str, ...], output: str) -> None:
    """Say why a job, PodGroup, pod, or all jobs of a queue wait: numbers, who holds it, and the way out."""
    from unisono.cli.connection import run_async

    run_async(_explain(where, what, output))


async def _explain(where: Where, what: tuple[str, ...], output: str) -> None:
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.printing import print_json
    from unisono.cli.resources import discover, request_json
    from unisono.cli.targets import one
    from unisono.cli.verdicts import verdict_lines, verdicts_of

    async with connect(where) as client:
        target = one(what, await discover(client))
        kind, namespace = target.resource.kind, namespace_of(where)
        if kind not in EXPLAINED:
            raise UnisonoError(f"A {kind} does not wait for a place: explain a job, a podgroup, a pod or a queue.")
        item = await request_json(client, "GET", target.resource.path(namespace, target.name))
        verdicts = await verdicts_of(client, kind, item)
        state, containers = _state(kind, item), _waiting(kind, item)
    if output == "json":
        print_json(
            {"kind": kind, "name": target.name, "state": state, "verdicts": verdicts, "waiting_containers": containers}
        )
        return
    if containers or not verdicts:
        does = "waits on its node" if containers else "does not wait"
        click.echo(f"{target.resource.singular}/{target.name} {does}: {state}.")
    for verdict in verdicts:
        for line in verdict_lines(verdict):
            click.echo(line)


def _waiting(kind: str, item: dict[str, Any]) -> list[dict[str, str]]:
    """Containers of a bound pod that wait to be started: name, and reason and message as its node reports them."""
    if kind != "Pod" or not (item.get("spec") or {}).get("nodeName"):
        return []
    status = item.get("status") or {}
    found = []
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting")
        if waiting is not None:
            words = {key: waiting.get(key) or "" for key in ("reason", "message")}
            found.append({"name": container.get("name") or "", **words})
    return found


def _state(kind: str, item: dict[str, Any]) -> str:
    """What the object itself says it is doing."""
    status = item.get("status") or {}
    if kind == "Job":
        return f"its phase is {(status.get('state') or {}).get('phase') or 'Pending, its PodGroup comes next'}"
    if kind == "Queue":
        counts = ", ".join(f"{status.get(name) or 0} {name}" for name in ("pending", "inqueue", "running"))
        return f"it is {status.get('state') or 'not opened yet'}, with {counts} PodGroups"
    if kind == "Pod":
        node = (item.get("spec") or {}).get("nodeName")
        phase = f"its phase is {status.get('phase', 'Pending')}" + (f" on node {node}" if node else ", not bound yet")
        return "; ".join([phase, *map(_container_state, _waiting(kind, item))])
    return f"its phase is {status.get('phase') or 'Pending, the next cycle decides'}"


def _container_state(container: dict[str, str]) -> str:
    words = ": ".join(filter(None, (container["reason"], container["message"])))
    return f"container {container['name']} waits" + (f": {words}" if words else "")
