"""``unisono describe``."""

from __future__ import annotations

from typing import Any

import click

from unisono.api.keys import LAST_APPLIED
from unisono.cli.options import Where, where_options


@click.command("describe")
@click.argument("what", nargs=-1, required=True)
@where_options
def command(where: Where, what: tuple[str, ...]) -> None:
    """Show an object: metadata, spec, status, why it waits, and its events."""
    from unisono.cli.connection import run_async

    run_async(describe(where, what))


async def describe(where: Where, what: tuple[str, ...]) -> None:
    """Print the objects that ``what`` names, each with its verdict and events."""
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.resources import discover, object_of, request_json
    from unisono.cli.targets import parse
    from unisono.cli.verdicts import verdict_lines
    from unisono.sdk.explaining import verdicts_of

    async with connect(where) as client:
        namespace = namespace_of(where)
        for index, target in enumerate(parse(what, await discover(client))):
            resource = target.resource
            path = resource.path(namespace, target.name)
            document = await request_json(client, "GET", path)
            for item in [document] if target.name else document.get("items") or []:
                if index:
                    click.echo("\n")
                live = {"apiVersion": resource.api_version, "kind": resource.kind, **item}
                for line in describe_lines(live):
                    click.echo(line)
                for verdict in await verdicts_of(client, resource.kind, object_of(resource, live)[1].metadata):
                    click.echo("Verdict:")
                    for line in verdict_lines(verdict):
                        click.echo(f"  {line}")
                for line in event_lines(await _events(client, live)):
                    click.echo(line)


async def _events(client: Any, item: dict[str, Any]) -> list[dict[str, Any]]:
    from unisono.cli.resources import request_json

    metadata = item["metadata"]
    selector = f"involvedObject.kind={item['kind']},involvedObject.name={metadata['name']}"
    namespace = metadata.get("namespace")
    path = f"/api/v1/namespaces/{namespace}/events" if namespace else "/api/v1/events"
    listing = await request_json(client, "GET", path, params={"fieldSelector": selector})
    events: list[dict[str, Any]] = listing.get("items") or []
    return sorted(events, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")


def describe_lines(item: dict[str, Any]) -> list[str]:
    """The object as people read it: metadata as a list, spec and status as YAML."""
    import yaml

    from unisono.api.annotations import VERDICT

    metadata = item["metadata"]
    lines = [f"Name:         {metadata['name']}"]
    if metadata.get("namespace"):
        lines.append(f"Namespace:    {metadata['namespace']}")
    lines.append(f"Kind:         {item['kind']} ({item['apiVersion']})")
    lines += _mapping("Labels:       ", metadata.get("labels") or {})
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in (LAST_APPLIED, VERDICT)}
    lines += _mapping("Annotations:  ", annotations)
    lines.append(f"Created:      {metadata.get('creationTimestamp', '<unknown>')}")
    if metadata.get("deletionTimestamp"):
        lines.append(f"Deleting:     since {metadata['deletionTimestamp']}")
    for owner in metadata.get("ownerReferences") or []:
        lines.append(f"Owned by:     {owner['kind']}/{owner['name']}")
    for key, value in item.items():
        if key in ("apiVersion", "kind", "metadata") or not value:
            continue
        lines.append(f"{key[0].upper()}{key[1:]}:")
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)
        lines += [f"  {line}" for line in text.rstrip().splitlines()]
    return lines


def _mapping(title: str, values: dict[str, str]) -> list[str]:
    if not values:
        return [f"{title}<none>"]
    pad = " " * len(title)
    return [f"{title if index == 0 else pad}{key}={value}" for index, (key, value) in enumerate(values.items())]


def event_lines(events: list[dict[str, Any]]) -> list[str]:
    """A table of events, oldest first."""
    from unisono.cli.printing import columns

    if not events:
        return ["Events:       <none>"]
    rows = [
        (
            event.get("type", ""),
            event.get("reason", ""),
            event.get("count") or (event.get("series") or {}).get("count") or 1,
            event.get("lastTimestamp") or event.get("eventTime") or "",
            (event.get("source") or {}).get("component") or event.get("reportingComponent") or "",
            event.get("message", ""),
        )
        for event in events
    ]
    return [
        "Events:",
        *(f"  {line}" for line in columns(("Type", "Reason", "Count", "Last", "From", "Message"), rows)),
    ]
