"""Bringing the HyperNodes of one source to what the source says now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

import structlog

from unisono.api.groups.topology import HyperNode
from unisono.api.kinds import HYPER_NODES
from unisono.controllers.hypernode.discovery import SOURCE
from unisono.controllers.objects import delete_seen
from unisono.controllers.patching import to_json
from unisono.errors import AlreadyExists, ApiError, Conflict, NotFound, Unavailable
from unisono.kube.client import Client

_log = structlog.get_logger(__name__)


def source_of(hyper_node: HyperNode) -> str:
    """From what it was made; empty for those that were made by hand or by another system."""
    return (hyper_node.metadata.labels or {}).get(SOURCE, "")


class HyperNodeWriter:
    """Makes, changes and deletes HyperNodes that carry the label of a source, and no others.

    Args:
        client: the API.
        vanished: called when one is gone that was to be changed.

    """

    def __init__(self, client: Client, vanished: Callable[[], None]) -> None:
        self._client, self._vanished = client, vanished
        # By name: what the server last refused of a HyperNode.
        self._refused: dict[str, str] = {}

    async def apply(self, wanted: Mapping[str, HyperNode], present: Iterable[HyperNode]) -> None:
        """Bring those of one source to ``wanted``; ``present`` are those that there are."""
        by_name = {each.metadata.name: each for each in present}
        self._refused = {name: text for name, text in self._refused.items() if name in {*wanted, *by_name}}
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
            if source_of(found) != source_of(hyper_node):
                name = hyper_node.metadata.name
                _log.warning("topology.name_taken", hyper_node=name, problem="it was made otherwise; rename it")

    async def _change(self, hyper_node: HyperNode) -> None:
        patch = {"spec": to_json(hyper_node.spec)}
        try:
            await self._client.patch(HYPER_NODES, hyper_node.metadata.name, patch)
        except NotFound:
            self._vanished()
