"""A kubeconfig with a context for each member."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from unisono.api.fleet_kinds import ATTACHED_CLUSTERS
from unisono.api.kinds import SECRETS
from unisono.cli.connection import connect
from unisono.cli.fleet.processes import folder
from unisono.cli.options import Where
from unisono.errors import ConfigError, NotFound
from unisono.fleet.members.contexts import merged
from unisono.fleet.members.credentials import member_config

if TYPE_CHECKING:
    from unisono.api.fleet import AttachedCluster
    from unisono.kube.http import HttpClient
    from unisono.kube.kubeconfig import ClusterConfig

_HUB = "hub"


async def write_contexts(where: Where, to: Path | None) -> None:
    """Write the kubeconfig, readable by its owner alone, and say how it is used.

    Args:
        where: the hub.
        to: the file; None for one in the hub's data directory.

    Raises:
        ConfigError: there is no member that the user can reach.

    """
    from unisono.api.yaml import dump
    from unisono.apiserver.access.files import write_private
    from unisono.standalone.paths import DataDir

    configs: dict[str, ClusterConfig] = {}
    async with connect(where) as hub:
        hub_config = hub.config
        for cluster in sorted((await hub.list(ATTACHED_CLUSTERS)).items, key=lambda each: each.metadata.name):
            try:
                configs[cluster.metadata.name] = await _reach(where, hub, cluster)
            except (NotFound, ConfigError) as error:
                click.echo(f"{cluster.metadata.name} is left out: {error}", err=True)
    if not configs:
        raise ConfigError("there is no member to write a context for: 'unisono fleet join' brings one")
    first = next(iter(configs))
    own = _HUB if _HUB not in configs else "the-hub"
    path = to or DataDir.at(where.data_dir).root / "contexts"
    write_private(path, dump(merged({own: hub_config, **configs}, own)).encode())
    click.echo(f"{path} has the contexts {', '.join((own, *configs))}.")
    click.echo(f"  kubectl --kubeconfig {path} --context {first} get nodes")


async def _reach(where: Where, hub: HttpClient, cluster: AttachedCluster) -> ClusterConfig:
    """How a member is reached: as its owner where it runs on this machine, else with the hub's rights there."""
    from unisono.kube.kubeconfig import load
    from unisono.standalone.paths import DataDir

    home = folder(where, cluster.metadata.name)
    if home.is_dir() and DataDir.at(home).kubeconfig.is_file():
        return load(DataDir.at(home).kubeconfig)
    secret = await hub.get(SECRETS, cluster.spec.secret.name or "", cluster.metadata.namespace)
    data = {key: str(value) for key, value in (secret.data or {}).items()}
    return member_config(data, cluster.spec.secret.key, f"Secret {secret.key}")
