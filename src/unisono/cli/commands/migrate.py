"""``unisono migrate``: from another scheduler's objects to ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unisono.cli.options import output_option


@click.group("migrate")
def command() -> None:
    """Rewrite what another scheduler was told."""


@command.command("from")
@click.argument("scheduler", type=click.Choice(("kueue", "kai", "yunikorn", "volcano")))
@click.option(
    "-f",
    "--filename",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path, allow_dash=True),
    multiple=True,
    required=True,
    help="YAML of the objects, such as 'kubectl get -o yaml' writes; - is standard input.",
)
@click.option(
    "--in-place", is_flag=True, help="Of Kueue: leave jobs as they are, and let their namespaces serve Kueue's labels."
)
@output_option("yaml", "json", default="yaml")
def from_(scheduler: str, files: tuple[Path, ...], in_place: bool, output: str) -> None:
    """Write queues, rules and access that mean the same as the objects of another scheduler.

    Nothing is applied. The objects go to standard output; what means nearly the same, and what has nothing like it
    here, to standard error (with -o json beside the objects).
    """
    import json
    from importlib import import_module

    from unisono.api.yaml import dump_all
    from unisono.errors import UnisonoError

    convert: Any = import_module(f"unisono.cli.migrate.{scheduler}").convert
    if in_place and scheduler != "kueue":
        raise UnisonoError("--in-place is for kueue: jobs of other schedulers are rewritten.")
    converted = convert([each for file in files for each in _objects(file)], **({"in_place": True} if in_place else {}))
    if output == "json":
        result = {"items": converted.objects(), "changes": converted.changes, "lost": converted.lost}
        click.echo(json.dumps(result, indent=2))
        return
    click.echo(dump_all(converted.objects()), nl=False)
    for change in converted.changes:
        click.echo(f"changed: {change}", err=True)
    for lost in converted.lost:
        click.echo(f"{click.style('lost', fg='yellow')}: {lost}", err=True)


def _objects(file: Path) -> list[dict[str, Any]]:
    import sys

    from unisono.api.yaml import load_all
    from unisono.errors import UnisonoError

    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        values = [each.value for each in load_all(text)]
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UnisonoError(f"{file} cannot be read: {error}.") from None
    objects: list[dict[str, Any]] = []
    for value in values:
        items = value.get("items") if isinstance(value, dict) and str(value.get("kind")).endswith("List") else None
        objects += [each for each in (items if isinstance(items, list) else [value]) if isinstance(each, dict)]
    return objects
