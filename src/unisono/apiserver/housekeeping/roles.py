"""Aggregated ClusterRoles: their rules follow the roles that they select."""

from __future__ import annotations

from unisono.api.kinds import CLUSTER_ROLES
from unisono.apiserver.authorization.rules import aggregated_rules
from unisono.apiserver.encoding import codec
from unisono.apiserver.housekeeping.housekeeper import Housekeeper
from unisono.apiserver.operations.context import Context
from unisono.apiserver.storage.objects import Event, Key
from unisono.kube.clock import SYSTEM_CLOCK, Clock

_ALL: Key = (CLUSTER_ROLES.resource, "", "*")


class RoleAggregation:
    """Watches the store from ``start`` to ``stop``."""

    def __init__(self, context: Context, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._context, self._store = context, context.store
        # One worker: a role may select another that is aggregated itself, and they must settle one after the other.
        self._keeper = Housekeeper("role aggregation", self._handle, workers=1, clock=clock)

    @property
    def idle(self) -> bool:
        """Nothing left to look at."""
        return self._keeper.idle

    def start(self) -> None:
        """Look at all roles once, then at every change."""
        self._store.listen(self._on_event)
        self._keeper.add(_ALL)
        self._keeper.start()

    async def stop(self) -> None:
        """Stop; the next start goes on."""
        await self._keeper.stop()

    def _on_event(self, event: Event) -> None:
        if event.entry.resource == CLUSTER_ROLES.resource:
            self._keeper.add(_ALL)

    async def _handle(self, _: Key) -> None:
        context = self._context
        for entry in list(self._store.scan_latest(CLUSTER_ROLES.resource)):
            role = codec.read(CLUSTER_ROLES, entry.data)
            if role.aggregation_rule is None or role.metadata.deletion_timestamp:
                continue
            rules = aggregated_rules(role, context.all(CLUSTER_ROLES))
            current = self._store.latest(entry.key)
            if (role.rules or []) == rules or current is None or current.revision != entry.revision:
                continue  # what changed meanwhile brings us back
            role.rules = rules
            await context.put(CLUSTER_ROLES, role, entry.revision)
