"""Keeps the HyperNodes that are made from labels of nodes or from a topology file in step with these."""

from __future__ import annotations

import os

import structlog

from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap, Node
from unisono.api.groups.topology import HyperNode
from unisono.api.kinds import CONFIG_MAPS, HYPER_NODES, NODES
from unisono.controllers.hypernode.discovery import find_domains, wanted_hyper_nodes
from unisono.controllers.hypernode.discovery_config import KEY, LABEL_SOURCE, DiscoveryConfig, parse_config
from unisono.controllers.hypernode.topology_file import FILE_SOURCE, hyper_nodes_of
from unisono.controllers.hypernode.writer import HyperNodeWriter, source_of
from unisono.controllers.recorder import Recorder
from unisono.errors import NotFound
from unisono.kube.client import Client, EventType
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


async def read_text(client: Client, config_map: tuple[str, str]) -> str:
    """The configuration of discovery; empty where there is none."""
    namespace, name = config_map
    try:
        found = await client.get(CONFIG_MAPS, name, namespace)
    except NotFound:
        return ""
    return (found.data or {}).get(KEY, "")


def tell(recorder: Recorder, config_map: tuple[str, str], problem: str) -> None:
    """Say what is wrong in the log, and as an event of the ConfigMap."""
    namespace, name = config_map
    _log.warning("topology.config", config_map=f"{namespace}/{name}", problem=problem)
    about = ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace))
    recorder.event(about, "Warning", "TopologyNotDiscovered", problem)


class HyperNodeDiscoveryController(Controller):
    """Makes, changes and deletes HyperNodes with label ``volcano.sh/network-topology-source``, and no others.

    Its sources are ``label`` and ``file``.
    """

    name = "hyperNode-discovery-controller"
    workers = 1

    def __init__(self, recorder: Recorder, config_map: tuple[str, str] | None = None) -> None:
        """Keep HyperNodes with labels and files.

        Args:
            recorder: tells what is wrong at the ConfigMap.
            config_map: namespace and name of the configuration; by default as ``config_map_key`` says.

        """
        self._recorder, self._config_map = recorder, config_map or config_map_key()
        self._told: list[str] = []

    def setup(self, context: Context) -> None:
        """Watch labels of nodes, and HyperNodes that come or go."""
        self._client, self._context = context.client, context
        self._nodes = context.informer(NODES)
        self._nodes.on_change(self._node_changed)
        self._hyper_nodes = context.informers.of(HYPER_NODES, optional=True)
        self._hyper_nodes.on_change(self._hyper_node_changed)
        self._writer = HyperNodeWriter(context.client, lambda: context.enqueue(_WORK, _SETTLE))

    async def start(self) -> None:
        """Look once even where there are no nodes."""
        self._context.enqueue(_WORK)

    async def reconcile(self, key: str) -> float | None:
        """Bring the HyperNodes to what the labels say now."""
        config = await self._read()
        self._tell(config.problems)
        found = self._hyper_nodes.items()
        if config.types is not None:
            present = [each for each in found if source_of(each) == LABEL_SOURCE]
            domains = find_domains(config.types, self._nodes.items())
            await self._writer.apply(wanted_hyper_nodes(domains, present, LABEL_SOURCE), present)
        if config.switches is not None:
            present = [each for each in found if source_of(each) == FILE_SOURCE]
            await self._writer.apply(hyper_nodes_of(config.switches, FILE_SOURCE), present)
        return _AGAIN

    async def _read(self) -> DiscoveryConfig:
        return parse_config(await read_text(self._client, self._config_map))

    def _tell(self, problems: list[str]) -> None:
        for problem in problems:
            if problem not in self._told:
                tell(self._recorder, self._config_map, problem)
        self._told = problems

    def _node_changed(self, event_type: EventType, new: Node, old: Node | None) -> None:
        if event_type == "MODIFIED" and old is not None and old.metadata.labels == new.metadata.labels:
            return
        self._context.enqueue(_WORK, _SETTLE)

    def _hyper_node_changed(self, event_type: EventType, new: HyperNode, old: HyperNode | None) -> None:
        if source_of(new) and (old is None or event_type == "DELETED" or new.spec != old.spec):
            self._context.enqueue(_WORK, _SETTLE)
