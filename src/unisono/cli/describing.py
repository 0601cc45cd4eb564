"""Objects as people read them: metadata, spec and status, the verdict, and events."""

from __future__ import annotations

from typing import Any

import click

from unisono.api.keys import LAST_APPLIED
from unisono.cli.options import Where


async def describe(where: Where, what: tuple[str, ...]) -> None:
    """Print the objects that ``what`` names, each with its verdict and events."""
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.targets import parse
    from unisono.kube.discovery import discover, request_json

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
                for line in await _answer(client, resource, live):
                    click.echo(line)
                for line in event_lines(await _events(client, live)):
                    click.echo(line)


async def _answer(client: Any, resource: Any, item: dict[str, Any]) -> list[str]:
    """The same text that ``unisono explain`` has for an object that waits, or runs badly."""
    from unisono.cli.explaining import explain_item, explanation_lines
    from unisono.jobkinds.registry import OWNERS
    from unisono.sdk.reasons.explanation import NothingToExplain

    if resource.name not in {kind.resource for kind in OWNERS} and resource.kind not in ("Pod", "PodGroup", "Queue"):
        return []
    title = f"{resource.kind.lower()}/{item['metadata']['name']}"
    try:
        explained = await explain_item(client, resource, item, title)
    except NothingToExplain:
        return []
    if not (
        explained.waits
        or explained.silent
        or explained.refused
        or explained.suspended
        or explained.running
        or explained.containers
    ):
        return []
    return ["Verdict:", *(f"  {line}" for line in explanation_lines(explained))]


async def _events(client: Any, item: dict[str, Any]) -> list[dict[str, Any]]:
    from unisono.kube.discovery import request_json

    metadata = item["metadata"]
    selector = f"involvedObject.kind={item['kind']},involvedObject.name={metadata['name']}"
    namespace = metadata.get("namespace")
    path = f"/api/v1/namespaces/{namespace}/events" if namespace else "/api/v1/events"
    listing = await request_json(client, "GET", path, params={"fieldSelector": selector})
    events: list[dict[str, Any]] = listing.get("items") or []
    return sorted(events, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")


def describe_lines(item: dict[str, Any]) -> list[str]:
    """The object as people read it: metadata as a list, spec and status as YAML."""
    from unisono.api.annotations import CHECKED, VERDICT
    from unisono.api.yaml import dump
    from unisono.cli.printing import visible

    metadata = item["metadata"]
    lines = [f"Name:         {metadata['name']}"]
    if metadata.get("namespace"):
        lines.append(f"Namespace:    {metadata['namespace']}")
    lines.append(f"Kind:         {item['kind']} ({item['apiVersion']})")
    lines += _mapping("Labels:       ", metadata.get("labels") or {})
    machines = (LAST_APPLIED, VERDICT, CHECKED)
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in machines}
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
        lines += [f"  {line}" for line in dump(value).rstrip().split("\n")]
    return [visible(line) for line in lines]


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
    return ["Events:", *(f"  {line}" for line in columns(("Type", "Reason", "Count", "Last", "From", "Message"), rows))]
