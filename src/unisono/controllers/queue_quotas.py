"""Amounts of queues that follow the nodes: annotation ``unisono.io/quotas`` of a Queue, such as ``deserved.cpu=80%``.

The amounts are written into the spec, so that whatever reads a Queue reads numbers. Machines that do not answer count
for some minutes more, so that a restart of one does not take amounts, and pods, from anybody; those that come count at
once, and so do those that are cordoned or removed on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from unisono.api.annotations import QUOTAS
from unisono.api.base import Object
from unisono.api.conditions import find_condition
from unisono.api.core import Node
from unisono.api.groups.scheduling import Queue
from unisono.api.kinds import NODES, QUEUES
from unisono.api.queues import quotas_of
from unisono.api.resources import add, is_bytes, resource_list, to_wire
from unisono.api.times import format_duration, time_or
from unisono.controllers.recorder import Recorder
from unisono.errors import ApiError, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

HOLD_SECONDS = 300.0
"""How long a node counts that is not ready any more."""
_REFUSED_SECONDS = 60.0

# What there is, and what of it a queue gets: pure.


def ready_amounts(nodes: Iterable[Node], now: float) -> tuple[dict[str, int], float | None]:
    """Sum of what nodes have that count, and in how many seconds the next of them counts no longer.

    Args:
        nodes: of the cluster.
        now: seconds since 1970.
    """
    total: dict[str, int] = {}
    again: float | None = None
    for node in nodes:
        ready = find_condition(node.status.conditions, "Ready")
        if node.spec.unschedulable or ready is None:
            continue
        if ready.status != "True":
            left = time_or(ready.last_transition_time, 0.0) + HOLD_SECONDS - now
            if left <= 0:
                continue
            again = left if again is None else min(again, left)
        add(total, resource_list(node.status.allocatable))
    return total, again


def amounts_of(shares: Mapping[tuple[str, str], Fraction], total: Mapping[str, int]) -> dict[str, dict[str, str]]:
    """Amounts by field of the spec and resource, whole units and mebibytes, but for processors."""
    amounts_by_field: dict[str, dict[str, int]] = {}
    for (field, name), share in shares.items():
        # Pods are counted whole, devices in thousandths.
        unit = 2**20 if is_bytes(name) else 1 if name in ("cpu", "pods") else 1000
        amount = int(total.get(name, 0) * share)
        amounts_by_field.setdefault(field, {})[name] = amount - amount % unit
    return {field: dict(to_wire(amounts)) for field, amounts in amounts_by_field.items()}


def changes(queue: Queue, wanted: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Merge patch of the spec that gives a queue these amounts; empty where it has them."""
    patch: dict[str, Any] = {}
    for field, amounts in wanted.items():
        stated: Any = getattr(queue.spec, field)
        have = resource_list(stated.resource if field == "guarantee" and stated is not None else stated)
        wrong = (name for name, amount in resource_list(amounts).items() if have.get(name) != amount)
        new = {name: amounts[name] for name in wrong}
        if new:
            patch[field] = {"resource": new} if field == "guarantee" else new
    return patch


class QueueQuotasController(Controller):
    """Writes amounts of the queues with the annotation when nodes come, go, or stay away."""

    name = "queue-quotas-controller"

    def __init__(self, recorder: Recorder) -> None:
        """``recorder`` records events on queues."""
        self._recorder = recorder
        self._names: set[str] = set()

    def setup(self, context: Context) -> None:
        """Watch queues, and nodes where a queue follows them."""
        self._queues = context.watch(QUEUES, when=_concerns)
        self._nodes = context.watch(NODES, lambda _: self._names, when=_counts_otherwise)

    async def reconcile(self, key: str) -> float | None:
        """Bring the amounts of one queue up to date."""
        queue = self._queues.get(key)
        text = (queue.metadata.annotations or {}).get(QUOTAS) if queue is not None else None
        if queue is None or not text or queue.metadata.deletion_timestamp:
            self._names.discard(key)
            return None
        self._names.add(key)
        try:
            shares = quotas_of(text)
        except ValueError as error:  # where no admission looks at it
            self._recorder.event(queue, "Warning", "QuotasNotRead", f"annotation {QUOTAS}: {error}")
            return None
        total, again = ready_amounts(self._nodes.items(), self._clock.time())
        patch = changes(queue, amounts_of(shares, total))
        if not patch:
            return again
        spec = {"metadata": {"resourceVersion": queue.metadata.resource_version}, "spec": patch}
        try:
            await self._client.patch(QUEUES, key, spec)
        except NotFound:
            return None
        except ApiError as error:
            if error.code != _INVALID:
                raise
            self._recorder.event(queue, "Warning", "QuotasNotWritten", f"{error} (next try in a minute)")
            return _REFUSED_SECONDS
        summary = ", ".join(f"{field} {name}: {amount}" for field, name, amount in _listed(patch))
        wait = f"; nodes that do not answer count for {format_duration(HOLD_SECONDS)}" if again is not None else ""
        self._recorder.event(
            queue, "Normal", "QuotasFollow", f"amounts follow the nodes that are ready: {summary}{wait}"
        )
        return again


_INVALID = 422


def _listed(patch: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    for field, amounts in patch.items():
        for name, amount in amounts.get("resource", amounts).items():
            yield field, name, amount


def _concerns(_: EventType, new: Object, old: Object | None) -> bool:
    return any(QUOTAS in (each.metadata.annotations or {}) for each in (new, old) if each is not None)


def _counts_otherwise(event_type: EventType, new: Node, old: Node | None) -> bool:
    return event_type != "MODIFIED" or old is None or _what_counts(new) != _what_counts(old)


def _what_counts(node: Node) -> tuple[Any, ...]:
    ready = find_condition(node.status.conditions, "Ready")
    allocatable = msgspec.to_builtins(node.status.allocatable)
    return bool(node.spec.unschedulable), None if ready is None else ready.status, allocatable
