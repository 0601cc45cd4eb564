"""What pods ask for, and what they hold of each node, kept as pods change: no view has to go through all pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from unisono.api.membership import pod_group_of
from unisono.api.pod_states import has_ended
from unisono.api.resources import pod_requests
from unisono.api.verdict import job_name

if TYPE_CHECKING:
    from unisono.api.core import Pod, PodSpec, ResourceRequirements

Amounts = Mapping[str, int]
# The cache is emptied when it holds this many kinds of pods.
_MOST = 4096
_known: dict[tuple[Any, ...], Mapping[str, int]] = {}


class Holder(NamedTuple):
    """What one job holds of one node: pods, and amounts in engine units that are never changed in place."""

    pods: int
    amounts: Amounts


class _Place(NamedTuple):
    node: str
    job: str
    amounts: Amounts


class Usage:
    """Holders by node and job (``namespace/name``, or ``pod namespace/name`` of a pod without a gang)."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}
        self._nodes: dict[str, dict[str, Holder]] = {}
        # Pods of a kind share one mapping.
        self._known: dict[tuple[tuple[str, int], ...], Amounts] = {}

    def note(self, event: str, pod: Pod) -> None:
        """A pod came, changed or went."""
        uid = pod.metadata.uid or pod.key
        before = self._places.pop(uid, None)
        node = pod.spec.node_name
        if event != "DELETED" and node and not has_ended(pod):
            asked = requests_of(pod.spec)
            amounts = self._known.setdefault(tuple(asked.items()), asked)
            group = pod_group_of(pod)
            place = _Place(node, job_name(group) if group else f"pod {pod.key}", amounts)
            self._places[uid] = place
            if place == before:
                return
            self._add(place, 1)
        if before is not None:
            self._add(before, -1)

    def _add(self, place: _Place, sign: int) -> None:
        jobs = self._nodes.setdefault(place.node, {})
        pods, held = jobs.get(place.job, Holder(0, {}))
        if pods + sign <= 0:
            jobs.pop(place.job, None)
            if not jobs:
                del self._nodes[place.node]
            return
        amounts = {name: held.get(name, 0) + sign * place.amounts.get(name, 0) for name in {**held, **place.amounts}}
        jobs[place.job] = Holder(pods + sign, amounts)

    def snapshot(self) -> dict[str, dict[str, Holder]]:
        """Holders by node, for another thread: what is changed later is not changed in it."""
        return {node: dict(jobs) for node, jobs in self._nodes.items()}


def used_by_node(holders: Mapping[str, Mapping[str, Holder]]) -> dict[str, dict[str, int]]:
    """What is held of each node altogether, with ``pods``."""
    found = {}
    for node, jobs in holders.items():
        total = {"pods": 0}
        for holder in jobs.values():
            total["pods"] += holder.pods
            for name, amount in holder.amounts.items():
                total[name] = total.get(name, 0) + amount
        found[node] = total
    return found


def requests_of(spec: PodSpec) -> Mapping[str, int]:
    """`pod_requests` of a pod, in engine units; pods that ask for the same share one mapping, which nobody changes.

    Raises:
        QuantityError: an amount is none.

    """
    if spec.init_containers or spec.resources is not None or spec.overhead:
        return pod_requests(spec)
    key = tuple(_told(each.resources) for each in spec.containers or ())
    found = _known.get(key)
    if found is None:
        found = pod_requests(spec)
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = found
    return found


def _told(resources: ResourceRequirements | None) -> tuple[Any, ...]:
    if resources is None:
        return ()
    return tuple((resources.requests or {}).items()), tuple((resources.limits or {}).items())
