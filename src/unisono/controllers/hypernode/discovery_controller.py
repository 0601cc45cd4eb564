"""Keeps the HyperNodes that are made from labels of nodes or from a topology file in step with these."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

import structlog

from unisono.api.core import Node
from unisono.api.kinds import CONFIG_MAPS, HYPER_NODES, NODES
from unisono.api.topology import HyperNode
from unisono.controllers.hypernode.discovery import SOURCE, find_domains, wanted_hyper_nodes
from unisono.controllers.hypernode.discovery_config import KEY, LABEL_SOURCE, DiscoveryConfig, parse_config
from unisono.controllers.hypernode.topology_file import FILE_SOURCE, hyper_nodes_of
from unisono.controllers.objects import delete_seen
from unisono.controllers.patching import to_json
from unisono.errors import AlreadyExists, ApiError, Conflict, NotFound, Unavailable
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

_log = structlog.get_logger(__name__)

_WORK = "discovery"
# Seconds after which the configuration is read again.
_AGAIN = 60.0
# Many nodes change at once when a cluster starts; they are looked at together.
_SETTLE = 1.0


def config_map_key() -> tuple[str, str]:
    """Namespace and name of the ConfigMap, found as Volcano finds it: by the environment of its Helm chart."""
    release = os.environ.get("HELM_RELEASE_NAME") or "volcano"
    return os.environ.get("KUBE_POD_NAMESPACE") or "volcano-system", f"{release}-controller-configmap"


class HyperNodeDiscoveryController(Controller):
    """Makes, changes and deletes HyperNodes with label ``volcano.sh/network-topology-source``, and no others.

    Its sources are ``label`` and ``file``.
    """

    name = "hyperNode-discovery-controller"
    workers = 1

    def __init__(self, config_map: tuple[str, str] | None = None) -> None:
        """``config_map`` is namespace and name of the configuration; by default as ``config_map_key`` says."""
        self._config_map = config_map or config_map_key()
        self._told: list[str] = []
        # By name: what the server last refused of a HyperNode.
        self._refused: dict[str, str] = {}

    def setup(self, context: Context) -> None:
        """Watch labels of nodes, and HyperNodes that come or go."""
        self._client, self._context = context.client, context
        self._nodes = context.informer(NODES)
        self._nodes.on_change(self._node_changed)
        self._hyper_nodes = context.informers.of(HYPER_NODES, optional=True)
        self._hyper_nodes.on_change(self._hyper_node_changed)

    async def start(self) -> None:
        """Look once even where there are no nodes."""
        self._context.enqueue(_WORK)

    async def reconcile(self, key: str) -> float | None:
        """Bring the HyperNodes to what the labels say now."""
        config = await self._read()
        self._tell(config.problems)
        found = self._hyper_nodes.items()
        if config.types is not None:
            present = [each for each in found if _source(each) == LABEL_SOURCE]
            domains = find_domains(config.types, self._nodes.items())
            await self._apply(wanted_hyper_nodes(domains, present, LABEL_SOURCE), present)
        if config.switches is not None:
            present = [each for each in found if _source(each) == FILE_SOURCE]
            await self._apply(hyper_nodes_of(config.switches), present)
        return _AGAIN

    async def _read(self) -> DiscoveryConfig:
        namespace, name = self._config_map
        try:
            found = await self._client.get(CONFIG_MAPS, name, namespace)
        except NotFound:
            return DiscoveryConfig()
        return parse_config((found.data or {}).get(KEY, ""))

    async def _apply(self, wanted: dict[str, HyperNode], present: list[HyperNode]) -> None:
        """Make, change and delete the HyperNodes of one source."""
        known = {*wanted, *(each.metadata.name for each in self._hyper_nodes.items())}
        self._refused = {name: text for name, text in self._refused.items() if name in known}
        by_name = {each.metadata.name: each for each in present}
        # Narrow domains first, so that no HyperNode names one that does not exist yet.
        for each in sorted(wanted.values(), key=lambda one: (one.spec.tier or 0, one.metadata.name)):
            before = by_name.get(each.metadata.name)
            if before is None:
                await self._one(each, self._create)
            elif before.spec != each.spec:
                await self._one(each, self._change)
        for name, old in by_name.items():
            if name not in wanted and not old.metadata.deletion_timestamp:
                await self._one(old, self._delete)

    async def _one(self, hyper_node: HyperNode, work: Callable[[HyperNode], Awaitable[None]]) -> None:
        """Work on one HyperNode; what the server refuses of it does not keep the others waiting."""
        name = hyper_node.metadata.name
        try:
            await work(hyper_node)
        except (Conflict, Unavailable):
            raise
        except ApiError as error:
            if self._refused.get(name) != str(error):
                _log.warning("topology.refused", hyper_node=name, problem=str(error))
            self._refused[name] = str(error)
        else:
            self._refused.pop(name, None)

    async def _delete(self, hyper_node: HyperNode) -> None:
        await delete_seen(self._client, HYPER_NODES, hyper_node)

    async def _create(self, hyper_node: HyperNode) -> None:
        try:
            await self._client.create(HYPER_NODES, hyper_node)
        except AlreadyExists:
            found = await self._client.get(HYPER_NODES, hyper_node.metadata.name)
            if _source(found) != _source(hyper_node):
                name = hyper_node.metadata.name
                _log.warning("topology.name_taken", hyper_node=name, problem="it was made otherwise; rename it")

    async def _change(self, hyper_node: HyperNode) -> None:
        patch = {"spec": to_json(hyper_node.spec)}
        try:
            await self._client.patch(HYPER_NODES, hyper_node.metadata.name, patch)
        except NotFound:
            self._context.enqueue(_WORK, _SETTLE)

    def _tell(self, problems: list[str]) -> None:
        if problems != self._told:
            for problem in problems:
                _log.warning("topology.config", config_map="/".join(self._config_map), problem=problem)
        self._told = problems

    def _node_changed(self, event_type: EventType, new: Node, old: Node | None) -> None:
        if event_type == "MODIFIED" and old is not None and old.metadata.labels == new.metadata.labels:
            return
        self._context.enqueue(_WORK, _SETTLE)

    def _hyper_node_changed(self, event_type: EventType, new: HyperNode, old: HyperNode | None) -> None:
        if _source(new) and (old is None or event_type == "DELETED" or new.spec != old.spec):
            self._context.enqueue(_WORK, _SETTLE)


def _source(hyper_node: HyperNode) -> str:
    """From what it was made; empty for those that were made by hand or by another system."""
    found = (hyper_node.metadata.labels or {}).get(SOURCE, "")
    return found if found in (LABEL_SOURCE, FILE_SOURCE) else ""
