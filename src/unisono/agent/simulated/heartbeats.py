"""Heartbeats of simulated nodes: renews their Leases, and brings nodes back that were lost during a pause."""

from __future__ import annotations

from collections.abc import Callable, Collection

import structlog

from unisono.agent.node import is_ready, renew_lease, report_ready
from unisono.api.core import Node
from unisono.api.kinds import NODES
from unisono.errors import ApiError, NotFound
from unisono.kube.client import Client
from unisono.kube.clock import Clock

# A Lease holds for this many periods.
_PERIODS = 3

_log = structlog.get_logger(__name__)


class Heartbeats:
    """Renews the Leases of all simulated nodes, spread over the period.

    Args:
        client: the API.
        names: names of the nodes.
        clock: paces the renewals.
        period: seconds between two renewals of one Lease.
        node: the Node object of a name, for its status.
    """

    def __init__(
        self, client: Client, names: Collection[str], clock: Clock, period: float, node: Callable[[str], Node]
    ) -> None:
        self._client, self._names, self._clock, self._period, self._node = client, names, clock, period, node
        # Nodes that were made by this process and have no Lease yet.
        self._new: set[str] = set()
        # By node: when its Lease was renewed last.
        self._renewed: dict[str, float] = {}
        # By node whose renewal was late: until when it may be marked as lost, so that its condition is looked at.
        self._doubtful: dict[str, float] = {}

    def made(self, name: str) -> None:
        """The node was created just now: it has no Lease yet."""
        self._new.add(name)

    async def run(self) -> None:
        """Renew until cancelled. After a pause all that are late are renewed at once."""
        while True:
            if not self._names:
                await self._clock.sleep(1.0)
            # Nodes may come and go meanwhile.
            for name in list(self._names):
                if name not in self._names:
                    continue
                late = self._is_late(name)
                renewed = await self._beat(name, late)
                if not (late and renewed):
                    await self._clock.sleep(self._period / max(1, len(self._names)))

    def _is_late(self, name: str) -> bool:
        last = self._renewed.get(name)
        return last is not None and self._clock.monotonic() - last >= 2 * self._period

    async def _beat(self, name: str, late: bool) -> bool:
        if late:
            self._doubtful[name] = self._clock.monotonic() + _PERIODS * self._period
        try:
            await renew_lease(
                self._client, name, self._clock.time(), round(_PERIODS * self._period), new=name in self._new
            )
            self._new.discard(name)
            self._renewed[name] = self._clock.monotonic()
            if name in self._doubtful:
                await self._come_back(name)
        except NotFound:
            # The node was deleted; it is made again by the next start.
            self._doubtful.pop(name, None)
        except (ApiError, OSError) as error:
            _log.warning("simulated.heartbeat_failed", node=name, error=str(error))
            return False
        return True

    async def _come_back(self, name: str) -> None:
        """Make a node Ready again; the mark may come after the first heartbeat, so later ones look as well."""
        if not is_ready(await self._client.get(NODES, name)):
            await report_ready(self._client, self._node(name), self._clock.time())
        if self._clock.monotonic() >= self._doubtful[name]:
            del self._doubtful[name]
