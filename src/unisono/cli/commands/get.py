"""``unisono get``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from unisono.cli.options import Where, output_option, where_options
from unisono.cli.printing import TABLE

if TYPE_CHECKING:
    from unisono.cli.targets import Target
    from unisono.kube.discovery import Resource
    from unisono.kube.http import HttpClient


@click.command("get")
@click.argument("what", nargs=-1, required=True)
@click.option("-A", "--all-namespaces", is_flag=True, help="Objects of all namespaces.")
@click.option("-l", "--selector", default="", help="Only objects with these labels, such as app=web,tier!=cache.")
@click.option("--field-selector", default="", help="Only objects with these fields, such as status.phase=Running.")
@click.option("-w", "--watch", is_flag=True, help="After the list, print changes until interrupted.")
@click.option("--show-managed-fields", is_flag=True, help="With -o json or yaml: also who set which field.")
@output_option("text", "wide", "json", "yaml", "name")
@where_options
async def command(
    where: Where,
    what: tuple[str, ...],
    all_namespaces: bool,
    selector: str,
    field_selector: str,
    watch: bool,
    show_managed_fields: bool,
    output: str,
) -> None:
    """List objects: a kind (jobs), a kind and names (job a b), or KIND/NAME; 'jobs,pods' lists both.

    Kinds are named as kubectl names them: plural, singular or short (vcjob, pg, q, po, no).
    """
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.printing import print_json, print_yaml, without_managed_fields
    from unisono.cli.targets import BadTarget, parse
    from unisono.kube.discovery import discover

    selectors = {"labelSelector": selector, "fieldSelector": field_selector}
    params = {key: value for key, value in selectors.items() if value}
    async with connect(where) as client:
        resources = await discover(client)
        targets = parse(what, resources)
        namespace = None if all_namespaces else namespace_of(where)
        if watch and len(targets) != 1:
            raise BadTarget("--watch follows one kind or one object: name just that.")
        if output in ("text", "wide"):
            await _print_tables(client, targets, namespace, params, output == "wide")
            if watch:
                await _follow(client, targets[0], namespace, params, output == "wide")
            return
        objects = [item for target in targets for item in await _objects(client, target, namespace, params)]
        if output == "name":
            kinds = {(item.kind, item.api_version): item for item in resources.resources}
            for item in objects:
                title = kinds[item["kind"], item["apiVersion"]].title
                click.echo(f"{title}/{item['metadata']['name']}")
            return
        if not show_managed_fields:
            objects = [without_managed_fields(item) for item in objects]
        single = len(targets) == 1 and targets[0].name is not None
        document = objects[0] if single else {"apiVersion": "v1", "kind": "List", "items": objects}
        (print_json if output == "json" else print_yaml)(document)


async def _objects(
    client: HttpClient, target: Target, namespace: str | None, params: dict[str, str]
) -> list[dict[str, Any]]:
    from unisono.kube.discovery import request_json

    path = target.resource.path(namespace, target.name)
    document = await request_json(client, "GET", path, params={} if target.name else params)
    if target.name:
        return [document]
    resource = target.resource
    return [{"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in document.get("items") or []]


async def _print_tables(
    client: HttpClient, targets: list[Target], namespace: str | None, params: dict[str, str], wide: bool
) -> None:
    from unisono.cli.printing import table_lines
    from unisono.kube.discovery import request_json

    merged: dict[Resource, dict[str, Any]] = {}
    for target in targets:
        path = target.resource.path(namespace, target.name)
        table = await request_json(client, "GET", path, params={} if target.name else params, accept=TABLE)
        combined = merged.setdefault(target.resource, {**table, "rows": []})
        combined["rows"] += table.get("rows") or []
    shown = {resource: table for resource, table in merged.items() if table["rows"]}
    for index, (resource, table) in enumerate(shown.items()):
        if index:
            click.echo()
        for line in table_lines(table, wide=wide, namespaces=namespace is None and resource.namespaced):
            click.echo(line)
    if not shown:
        place = f" in namespace {namespace}" if namespace and any(item.resource.namespaced for item in targets) else ""
        click.echo(f"No {' or '.join(resource.plural for resource in merged)} found{place}.", err=True)


async def _follow(
    client: HttpClient, target: Target, namespace: str | None, params: dict[str, str], wide: bool
) -> None:
    """Print a table row for every change after now."""
    from unisono.cli.printing import table_lines
    from unisono.kube.discovery import request_json

    path = target.resource.path(namespace)
    if target.name:
        params = {**params, "fieldSelector": f"metadata.name={target.name}"}
    listing = await request_json(client, "GET", path, params=params)
    query = {**params, "watch": "true", "resourceVersion": listing["metadata"]["resourceVersion"]}
    definitions: list[dict[str, Any]] = []
    buffer = b""
    async for chunk in client.stream(path, query, accept=TABLE):
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in filter(None, lines):
            table = json.loads(line)["object"]
            definitions = table.get("columnDefinitions") or definitions
            rows = table_lines({**table, "columnDefinitions": definitions}, wide=wide, namespaces=namespace is None)
            for text in rows[1:]:
                click.echo(text)
