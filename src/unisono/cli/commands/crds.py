"""``unisono crds``."""

from __future__ import annotations

import click

from unisono.cli.options import output_option


@click.command("crds")
@output_option("yaml", "json", default="yaml")
def command(output: str) -> None:
    """Print the definitions of our kinds, for 'kubectl apply --server-side -f -'."""
    from unisono.api.crds import crd_manifests

    manifests = crd_manifests()
    if output == "json":
        import json

        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}, indent=2))
        return
    from unisono.api.yaml import dump_all

    click.echo(dump_all(manifests), nl=False)
