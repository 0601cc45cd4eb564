"""Members of a hub: they join and leave, run on this machine, and get a context each in the kubeconfig."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from unisono.api import messages
from unisono.api.annotations import NETWORK, PRICES
from unisono.api.groups.fleet import Fleet
from unisono.api.kind_families import ATTACHED_CLUSTERS, FLEETS
from unisono.api.kinds import SECRETS, find
from unisono.cli.connection import connect
from unisono.cli.fleet.jobs import described_kinds
from unisono.cli.options import Where, run_async
from unisono.errors import ApiError, ConfigError, NotFound, UnisonoError
from unisono.fleet.members import joining
from unisono.fleet.members.joining import member_config, merged

if TYPE_CHECKING:
    from unisono.api.groups.fleet import AttachedCluster
    from unisono.kube.http import HttpClient
    from unisono.kube.kubeconfig import ClusterConfig


# Control planes of embedded members: where their data is, and their end.


def folder(where: Where, name: str) -> Path:
    """The data directory of an embedded member."""
    from unisono.standalone.paths import DataDir

    return DataDir.at(where.data_dir).root / "members" / name


def stop(where: Where, name: str) -> bool:
    """Stop the control plane of an embedded member; answers whether one ran."""
    from unisono.standalone.paths import DataDir

    home = folder(where, name)
    if not home.is_dir() or DataDir.at(home).running_pid() is None:
        return False
    words = ["down", "--data-dir", str(home)]
    return subprocess.run([sys.executable, "-m", "unisono", *words], capture_output=True, check=False).returncode == 0


# A kubeconfig with a context for each member.

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


# Members on this machine: control planes of their own, each a process with its own data.


_ONE_MACHINE = "one-machine"
"""Network of all members on this machine."""


class NotStarted(UnisonoError):
    """The control plane of an embedded member did not start."""


def embed(where: Where, name: str, nodes: Path, about: Mapping[str, Any], *, agent: bool) -> None:
    """Start the member's control plane where it does not run, and join it.

    Raises:
        NotStarted: it did not start; says what it said.
    """
    from unisono.standalone.paths import DataDir, read_nodes

    read_nodes(nodes)  # says what is wrong with it
    home = folder(where, name)
    data = DataDir.at(home)
    if data.running_pid() is None:
        home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        words = ["up", "--detach", "--data-dir", str(home), "--nodes", str(nodes.absolute())]
        done = subprocess.run(
            [sys.executable, "-m", "unisono", *words, *([] if agent else ["--no-agent"])],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise NotStarted(f"the control plane of {name} did not start: {said[-1] if said else 'it said nothing'}")
    # The members of one machine have its network in common.
    labels = (f"{NETWORK}={_ONE_MACHINE}", *about["labels"])
    run_async(join(where, name, data.kubeconfig, None, {**about, "labels": labels}))


# Members join and leave: an account in the member, a Secret, an AttachedCluster and a Fleet on the hub.

_READY_SECONDS = 60.0


class NotReady(UnisonoError):
    """The hub does not reach a member."""


async def join(where: Where, name: str, member: Path, context: str | None, about: Mapping[str, Any]) -> None:
    """Join a cluster; ends when it takes work, or says why it does not.

    Args:
        where: the hub, and the namespace of the fleet's objects there.
        name: of the member.
        member: kubeconfig by which the user reaches it.
        context: of that kubeconfig.
        about: fleet, region, labels and prices; whether Applications may bring objects of any kind.

    Raises:
        NotReady: it has joined, and takes no work.
    """
    from unisono.kube.http import HttpClient
    from unisono.kube.kubeconfig import load

    namespace = where.namespace or joining.FLEET_NAMESPACE
    client = HttpClient(load(member, context=context))
    async with connect(where) as hub:
        try:
            resources = [each.kind.resource for each in await described_kinds(hub)]
            token = await _account(client, applications=about["applications"], resources=resources)
            kubeconfig = joining.hub_kubeconfig(client.config, token)
        finally:
            await client.close()
        labels, prices = await _as_joined(hub, name, namespace)
        given = ",".join(f"{key}={value}" for key, value in _pairs(about["prices"], "--price").items())
        objects = joining.hub_objects(
            name,
            namespace,
            kubeconfig,
            labels=labels | _pairs(about["labels"], "--label"),
            region=about["region"],
            prices=given or prices,
        )
        await _bring(hub, objects)
        await _add(hub, about["fleet"], namespace, name)
        click.echo(f"{name} has joined fleet {about['fleet']}.")
        click.echo(await _ready(hub, name, namespace))


async def _as_joined(hub: HttpClient, name: str, namespace: str) -> tuple[dict[str, str], str]:
    """Labels and prices of a member that joins again, to renew the hub's token or rights: it keeps them."""
    try:
        meta = (await hub.get(ATTACHED_CLUSTERS, name, namespace)).metadata
    except NotFound:
        return {}, ""
    return dict(meta.labels or {}), (meta.annotations or {}).get(PRICES, "")


async def leave(where: Where, name: str, namespace: str) -> None:
    """Take a member out of the hub's fleets and forget how it is reached."""
    async with connect(where) as hub:
        cluster = await hub.get(ATTACHED_CLUSTERS, name, namespace)
        for fleet in (await hub.list(FLEETS, namespace)).items:
            members = [each.name or "" for each in fleet.spec.clusters or ()]
            if name in members:
                members.remove(name)
                left = joining.fleet_with(fleet.metadata.name, namespace, members)["spec"]
                await hub.patch(FLEETS, fleet.metadata.name, {"spec": left}, namespace=namespace)
        await hub.delete(ATTACHED_CLUSTERS, name, namespace)
        secret = cluster.spec.secret.name or ""
        if secret == f"{name}-kubeconfig":  # as 'fleet join' calls it
            await hub.delete(SECRETS, secret, namespace)
    click.echo(f"{name} has left.")
    if stop(where, name):
        click.echo(f"The control plane of {name} is stopped; its data is kept.")


async def _account(member: HttpClient, *, applications: bool, resources: Collection[str]) -> str:
    """Make the hub's account in the member and answer a token of it."""
    await _bring(member, joining.account(applications=applications, resources=resources))
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": joining.TOKEN_SECONDS},
    }
    status, _, body = await member.request("POST", joining.token_path(), body=msgspec.json.encode(request))
    answer = msgspec.json.decode(body)
    if status >= 300:
        raise ApiError(answer.get("message", "the member gives no token"), code=status)
    return str(answer["status"]["token"])


async def _bring(client: HttpClient, objects: Iterable[dict[str, Any]]) -> None:
    for value in objects:
        kind = find(value["apiVersion"], value["kind"])
        assert kind is not None
        meta = value["metadata"]
        await client.patch(kind, meta["name"], value, namespace=meta.get("namespace"), patch_type="apply")


async def _add(hub: HttpClient, fleet: str, namespace: str, name: str) -> None:
    """Make the fleet, or add a member to it."""
    try:
        existing = await hub.get(FLEETS, fleet, namespace)
    except NotFound:
        await hub.create(FLEETS, msgspec.convert(joining.fleet_with(fleet, namespace, [name]), Fleet))
        return
    members = msgspec.to_builtins(existing.spec.clusters or [])
    if any(each.get("name") == name for each in members):
        return
    added = [*members, {"name": name, "kind": ATTACHED_CLUSTERS.kind}]
    patch = {"metadata": {"resourceVersion": existing.metadata.resource_version}, "spec": {"clusters": added}}
    await hub.patch(FLEETS, fleet, patch, namespace=namespace)


async def _ready(hub: HttpClient, name: str, namespace: str) -> str:
    """Wait until the member takes work, and say what it has."""
    why = messages.MEMBER_NOT_LOOKED_AT
    waited = 0.0
    while waited < _READY_SECONDS:
        status = (await hub.get(ATTACHED_CLUSTERS, name, namespace)).status
        if status.ready and status.node_summary is not None:
            return f"It takes work: {status.node_summary.ready_num or 0} nodes, Kubernetes {status.kubernetes_version}."
        condition_messages = [each.message for each in status.conditions or () if each.message]
        why = condition_messages[0] if condition_messages and condition_messages[0] else why
        await asyncio.sleep(0.25)
        waited += 0.25
    raise NotReady(f"{name} has joined and takes no work yet: {why}")


def _pairs(given: Iterable[str], option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for pair in given:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise ConfigError(f"{option} must be KEY=VALUE, not {pair!r}")
        pairs[key] = value
    return pairs
