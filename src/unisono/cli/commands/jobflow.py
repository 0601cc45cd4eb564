"""``unisono jobflow``: job flows with ``vcctl``'s verbs and flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from unisono.cli.options import Where, file_option
from unisono.cli.vcctl import cluster_options, everywhere_option, name_option, namespace_option, print_option

if TYPE_CHECKING:
    from unisono.api.kind import Kind

# ``unisono jobflow`` and ``unisono jobtemplate``: the same verbs on two kinds.

WORDS = {"jobflow": ("JobFlow", "job flow"), "jobtemplate": ("JobTemplate", "job template")}


def flow_group(word: str) -> click.Group:
    """The commands of one kind: create, list, get, describe, delete."""
    kind, title = WORDS[word]
    group = click.Group(word, help=f"Create, list, get, describe and delete {title}s, as vcctl does.")

    @group.command("create", help=f"Create the {title}s of files.")
    @file_option()
    @namespace_option
    @cluster_options
    async def create(where: Where, files: tuple[str, ...]) -> None:
        from unisono.cli.vcctl import create_all

        await create_all(where, files, (kind,), f"unisono {word} create")

    @group.command("list", help=f"List {title}s.")
    @everywhere_option
    @print_option("text", "json", "yaml")
    @namespace_option
    @cluster_options
    async def list_(where: Where, all_namespaces: bool, output: str) -> None:

        await _show(where, word, None, all_namespaces, output)

    @group.command("get", help=f"Show one {title} in a line.")
    @name_option("-N", title)
    @print_option("text", "json", "yaml")
    @namespace_option
    @cluster_options
    async def get(where: Where, name: str, output: str) -> None:

        await _show(where, word, name, False, output)

    @group.command("describe", help=f"Show a {title} as it is stored.")
    @name_option("-N", title)
    @print_option("yaml", "json")
    @namespace_option
    @cluster_options
    async def describe(where: Where, name: str, output: str) -> None:

        await _show(where, word, name, False, output)

    @group.command("delete", help=f"Delete a {title}, or those of files.")
    @click.argument("given", required=False, metavar="[NAME]")
    @click.option("-N", "--name", help=f"Name of the {title}; the same as the argument.")
    @file_option(required=False)
    @namespace_option
    @cluster_options
    async def delete(where: Where, given: str | None, name: str | None, files: tuple[str, ...]) -> None:

        if sum(map(bool, (given, name, files))) != 1:
            raise click.UsageError(f"Say once which {title}: NAME, -N NAME or -f FILE.")
        await _delete(where, word, given or name, files)

    return group


def _kind(word: str) -> Kind[Any]:
    from unisono.api.kind_families import JOB_FLOWS, JOB_TEMPLATES

    return JOB_FLOWS if word == "jobflow" else JOB_TEMPLATES


async def _show(where: Where, word: str, name: str | None, everywhere: bool, output: str) -> None:
    from unisono.cli.vcctl import connected, flow_lines, item, items, show

    kind = _kind(word)
    async with connected(where) as (client, namespace):
        if name:
            objects = [await item(client, kind, namespace, name)]
        else:
            objects = await items(client, kind, None if everywhere else namespace)
    if output == "text" and not objects:
        click.echo("No resources found")
        return
    show(output, objects[0] if name else objects, flow_lines(objects, phases=word == "jobflow"))


async def _delete(where: Where, word: str, name: str | None, files: tuple[str, ...]) -> None:
    from unisono.cli.manifests import read
    from unisono.cli.vcctl import connected
    from unisono.errors import ApiError, UnisonoError

    kind = _kind(word)
    manifests = [] if name else [manifest for manifest in read(files) if manifest.kind == kind.kind]
    if not name and not manifests:
        raise UnisonoError(f"There is no {kind.kind} in these files: use 'unisono delete -f' for other kinds.")
    failed = []
    async with connected(where) as (client, namespace):
        targets = [(namespace, name)] if name else []
        targets += [(manifest.metadata.get("namespace") or namespace, manifest.name) for manifest in manifests]
        for place, each in targets:
            try:
                await client.delete(kind, each, place, propagation="Background")
                click.echo(f"delete {word} {place}/{each} successfully")
            except ApiError as error:
                failed.append(error.message)
    if failed:
        raise UnisonoError("; ".join(failed))


command = flow_group("jobflow")

# ``unisono jobtemplate``: job templates with ``vcctl``'s verbs and flags.

jobtemplate_command = flow_group("jobtemplate")
