"""Floating resources such as licences: asks their sources how many there are, and counts how many are held here."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from unisono.api.annotations import LICENSES
from unisono.api.base import Condition
from unisono.api.core import Pod
from unisono.api.groups.quota import FloatingResource, FloatingResourceStatus, FloatingSource
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import FLOATING_RESOURCES, POD_GROUPS, PODS
from unisono.api.licenses import MOST, UNIT, asked_for, is_floating, short
from unisono.api.pod_states import has_ended
from unisono.api.resources import pod_requests
from unisono.api.times import rfc3339, time_or
from unisono.api.topology_sources import Fetch, SourceFailed
from unisono.controllers.node_scaling.decide import groups_of
from unisono.controllers.objects import LastWritten, write_status
from unisono.errors import NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

MOST_BYTES: Final = 64 << 10
"""The longest answer of a source."""
PATIENCE: Final = 10.0
"""Seconds that a source may take."""

_POD_INDEX, _GROUP_INDEX, _MEMBERS = "floating-of-pod", "floating-of-group", "floating-members"
_SETTLE = 1.0


class FloatingResourceController(Controller):
    """Keeps the status of FloatingResources; a source that does not answer keeps no other waiting."""

    name = "floating-resource-controller"
    workers = 4

    def __init__(self, fetch: Fetch | None = None) -> None:
        """``fetch`` asks servers; without one no source answers."""
        self._fetch = fetch
        self._written: LastWritten[FloatingResource] = LastWritten()
        self._asked: dict[str, tuple[FloatingSource, float]] = {}

    def setup(self, context: Context) -> None:
        """Watch floating resources, and pods and PodGroups that ask for some."""
        self._floating = context.watch(FLOATING_RESOURCES, optional=True)
        self._pods, self._groups = context.informer(PODS), context.informer(POD_GROUPS)
        self._pods.add_index(_POD_INDEX, _held_by_pod)
        self._pods.add_index(_MEMBERS, _group_on_node)
        self._groups.add_index(_GROUP_INDEX, _asked_by_group)
        self._pods.on_change(self._pod_changed)
        self._groups.on_change(self._group_changed)

    def _pod_changed(self, _: EventType, new: Pod, old: Pod | None) -> None:
        if not len(self._floating):
            return
        names = {name for each in (new, old) if each is not None for name in _asked_by_pod(each)}
        for key in groups_of(new):
            group = self._groups.get(key)
            names |= set() if group is None else set(_asked_by_group(group))
        self._count_again(names)

    def _group_changed(self, _: EventType, new: PodGroup, old: PodGroup | None) -> None:
        self._count_again({name for each in (new, old) if each is not None for name in _asked_by_group(each)})

    def _count_again(self, names: Iterable[str]) -> None:
        for name in names:
            if self._floating.get(name) is not None:
                self._context.enqueue(name, _SETTLE)

    async def reconcile(self, key: str) -> float | None:
        """Ask the source of one, where it is time to, and count what is held."""
        floating = self._written.newest(key, self._floating.get(key))
        if floating is None or floating.metadata.deletion_timestamp:
            self._asked.pop(key, None)
            return None
        status = msgspec.structs.replace(floating.status, in_use=self._held(key))
        source, now, again = floating.spec.source, self._clock.time(), None
        if source is None:
            self._asked.pop(key, None)
            status.amount = status.elsewhere = status.observed = None
            status.conditions = _ready(floating, "True", "Stated", "spec.amount says how many there are", now)
        else:
            asked, at = self._asked.get(key, (None, 0.0))
            if asked != source or now >= at + source.interval_seconds:
                self._asked[key] = source, now
                await self._ask(floating, source, status)
            now = self._clock.time()
            again = max(self._asked[key][1] + source.interval_seconds - now, 1.0)
        try:
            self._written.keep(await write_status(self._client, FLOATING_RESOURCES, floating, status))
        except NotFound:
            return None
        return again

    async def _ask(self, floating: FloatingResource, source: FloatingSource, status: FloatingResourceStatus) -> None:
        """Enter the answer of the source, or why there is none; what it said last stays with its time."""
        try:
            if self._fetch is None:
                raise SourceFailed("servers cannot be asked from here")
            async with asyncio.timeout(PATIENCE):
                body = await self._fetch.get(source.url, credentials={}, most_bytes=MOST_BYTES)
            amount, elsewhere = read_answer(body, source)
        except (SourceFailed, TimeoutError) as error:
            problem = str(error) or f"it does not answer within {PATIENCE:g} s"
            status.conditions = _ready(floating, "False", "SourceFailed", problem, self._clock.time())
            return
        now = self._clock.time()
        if (amount, elsewhere) != (status.amount, status.elsewhere) or _half_over(status, source, now):
            status.observed = rfc3339(now)
        status.amount, status.elsewhere = amount, elsewhere
        status.conditions = _ready(floating, "True", "Observed", "its source says how many there are", now)

    def _held(self, name: str) -> int:
        """How many are held by pods on nodes, and by jobs as a whole of which a pod is on a node."""
        amounts: Counter[str] = Counter()
        for pod in self._pods.by_index(_POD_INDEX, name):
            amounts.update({short(each): amount for each, amount in pod_requests(pod.spec).items()})
        for group in self._groups.by_index(_GROUP_INDEX, name):
            if self._pods.by_index(_MEMBERS, group.key):
                amounts.update({short(each): amount for each, amount in asked_for(group.metadata.annotations).items()})
        return -(-amounts[name] // UNIT)


def read_answer(body: bytes, source: FloatingSource) -> tuple[int | None, int | None]:
    """How many there are and how many others hold, as an answer says; None where the source does not tell.

    Raises:
        SourceFailed: it is no JSON, or has no whole number where one should be.
    """
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise SourceFailed(f"{source.url} does not answer with JSON: {error}") from error
    return _number(document, source.amount_pointer), _number(document, source.in_use_pointer)


def _number(document: Any, pointer: str) -> int | None:
    if not pointer:
        return None
    at = document
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(at, list) and name.isascii() and name.isdigit() and int(name) < len(at):
            at = at[int(name)]
        elif isinstance(at, dict) and name in at:
            at = at[name]
        else:
            raise SourceFailed(f"its answer has nothing at {pointer}")
    if isinstance(at, float) and at.is_integer():
        at = int(at)
    if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at <= MOST:
        raise SourceFailed(f"its answer has no whole number from 0 to {MOST} at {pointer}")
    return at


def _half_over(status: FloatingResourceStatus, source: FloatingSource, now: float) -> bool:
    """Whether half of the time is over for which the last answer counts: an equal one is written down again then."""
    return now >= time_or(status.observed or "", 0.0) + source.stale_seconds / 2


def _ready(floating: FloatingResource, status: str, reason: str, message: str, now: float) -> list[Condition]:
    before = next((one for one in floating.status.conditions or () if one.type == "Ready"), None)
    changed = before is None or before.status != status
    since = rfc3339(now) if changed or before is None else before.last_transition_time
    made = Condition(type="Ready", status=status, reason=reason, message=message[:1024], last_transition_time=since)
    return [*(one for one in floating.status.conditions or () if one.type != "Ready"), made]


def _asked_by_pod(pod: Pod) -> list[str]:
    return [short(name) for name in pod_requests(pod.spec) if is_floating(name)]


def _held_by_pod(pod: Pod) -> list[str]:
    """Index function: floating resources that a pod on a node holds."""
    return _asked_by_pod(pod) if pod.spec.node_name and not has_ended(pod) else []


def _group_on_node(pod: Pod) -> list[str]:
    """Index function: the PodGroup of a pod that is on a node."""
    return groups_of(pod) if pod.spec.node_name and not has_ended(pod) else []


def _asked_by_group(group: PodGroup) -> list[str]:
    """Index function: floating resources that a job asks for as a whole; what cannot be read asks for none."""
    if not (group.metadata.annotations or {}).get(LICENSES):
        return []
    try:
        return [short(name) for name in asked_for(group.metadata.annotations)]
    except ValueError:
        return []
