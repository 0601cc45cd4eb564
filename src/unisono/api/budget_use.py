"""Who uses how much of what budgets are about: the times in which pods of jobs held their nodes (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import NamedTuple

from unisono.api.budgets import MONEY, Hold, Prices, Purse
from unisono.api.core import Node, Pod
from unisono.api.groups.scheduling import PodGroup
from unisono.api.pod_states import began, has_ended, is_disrupted, over_at
from unisono.api.quantity import QuantityError
from unisono.api.resources import pod_requests
from unisono.api.selecting import DEFAULT_QUEUE, account_of, lineage, pod_group_of, queue_of

_MILLIS = 1000.0


class PriceTime(NamedTuple):
    """PriceLists by name as they are from a moment on; ``version`` tells apart what they have said so far."""

    since: float
    version: int
    prices: Mapping[str, Prices]


@dataclass(frozen=True, slots=True)
class Whose:
    """Of which queue, account and PriorityClass a job is."""

    queue: str
    account: str
    priority_class: str


@dataclass(slots=True)
class Use:
    """A time in which a pod held its node.

    Attributes:
        start: seconds since the epoch.
        end: infinite while it goes on.
        namespace: of the pod, and ``group`` its PodGroup.
        held: amounts by resource, in engine units.
        node: its name.
        labels: of the node; None as long as the node is not known.
        whose: None as long as its PodGroup is not known.
        evicted: it ended for the sake of others.
    """

    start: float
    end: float
    namespace: str
    group: str
    held: Mapping[str, int]
    node: str
    labels: Mapping[str, str] | None = None
    whose: Whose | None = None
    evicted: bool = False
    rates: dict[tuple[object, ...], Mapping[str, float]] = field(default_factory=dict)


class Uses:
    """Pods of jobs that hold a node, and those that did a short while ago; pods without a PodGroup are nobody's."""

    def __init__(self, default_queue: str = DEFAULT_QUEUE) -> None:
        self._default_queue = default_queue
        self._uses: dict[str, Use] = {}
        self._of_group: dict[str, set[str]] = {}
        self._groups: dict[str, Whose] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._parents: dict[str, str] = {}

    def put_node(self, node: Node) -> None:
        """Pods that begin there from now on cost what its labels say."""
        self._labels[node.metadata.name] = node.metadata.labels or {}

    def put_queue(self, name: str, parent: str) -> None:
        """A queue and the one above it."""
        self._parents[name] = parent

    def put_group(self, group: PodGroup, *, gone: bool = False) -> None:
        """A PodGroup: its pods are of its queue and its user; also those that are still there once it is gone."""
        key = group.key
        annotations = group.metadata.annotations
        account = account_of(group.metadata.namespace or "", annotations)
        whose = Whose(queue_of(group, self._default_queue), account, group.spec.priority_class_name or "")
        for uid in self._of_group.get(key, ()):
            self._uses[uid].whose = whose
        if gone:
            self._groups.pop(key, None)
        else:
            self._groups[key] = whose

    def put_pod(self, pod: Pod, now: float, *, gone: bool = False, evicted: bool = False) -> str:
        """A pod as it is, or was at last.

        Args:
            pod: as the server tells of it.
            now: seconds since the epoch, for what it does not say itself.
            gone: it was deleted.
            evicted: it ends for the sake of others, though it may not say so.

        Returns:
            its PodGroup, where something has begun or ended; else an empty text.
        """
        group, uid = pod_group_of(pod), pod.metadata.uid or pod.key
        use, moment = self._uses.get(uid), round(now * _MILLIS)
        if not group or (use is not None and use.end < inf):
            return ""
        begun = use is None
        if use is None:
            start = began(pod, moment)
            if not start:
                return ""
            node = pod.spec.node_name or ""
            use = Use(start / _MILLIS, inf, pod.metadata.namespace or "", group, _requests(pod), node)
            use.labels, use.whose = self._labels.get(node), self._groups.get(group)
            self._uses[uid] = use
            self._of_group.setdefault(group, set()).add(uid)
        ended = gone or has_ended(pod)
        if ended:
            use.end = over_at(pod, round(use.start * _MILLIS), moment) / _MILLIS
            use.evicted = evicted or is_disrupted(pod)
        elif (held := _requests(pod)) != use.held:  # a pod that is resized in place
            use.held, use.rates = held, {}
        return group if begun or ended else ""

    def forget(self, before: float, longest: float) -> None:
        """Drop what ended before a moment; ``longest``: for so long a pod may count that ended sooner."""
        for uid, use in list(self._uses.items()):
            if max(use.end, use.start + longest) < before:
                del self._uses[uid]
                members = self._of_group[use.group]
                members.discard(uid)
                if not members:
                    del self._of_group[use.group]

    def names_of(self, group: str, namespace: str, purses: Iterable[Purse]) -> list[str]:
        """Names of the budgets that the pods of a PodGroup use; of all where the PodGroup is not known."""
        whose = self._groups.get(group)
        if whose is None:
            return [purse.name for purse in purses]
        lines = lineage(whose.queue, self._parents)
        return [purse.name for purse in purses if purse.admits(whose.account, namespace, lines)]

    def holds(self, purse: Purse, prices: Mapping[str, Prices], version: object = None) -> list[Hold]:
        """What counts for a budget; ``version`` tells apart what budgets and prices have said so far."""
        counted: list[Hold] = []
        above: dict[str, list[str]] = {}
        for use in self._uses.values():
            whose = use.whose
            if whose is None:
                continue
            lines = above.get(whose.queue)
            if lines is None:
                lines = above[whose.queue] = lineage(whose.queue, self._parents)
            if not purse.admits(whose.account, use.namespace, lines):
                continue
            place = (purse.name, version, whose.priority_class)
            rates = use.rates.get(place)
            if use.labels is None:
                use.labels, rates = self._labels.get(use.node), None
            if rates is None:
                use.rates = {key: value for key, value in use.rates.items() if key[1] == version}
                rates = use.rates[place] = purse.rates(use.held, use.labels or {}, whose.priority_class, prices)
            if rates:
                end = use.end if use.evicted else max(use.end, use.start + purse.least)
                counted.append(Hold(use.start, end, rates))
        return counted

    def holds_over(self, purse: Purse, times: Sequence[PriceTime]) -> list[Hold]:
        """What counts for a budget, at the prices that held at the time; ``times``: one after the other, not empty."""
        if MONEY not in purse.amounts or len(times) == 1:
            return self.holds(purse, times[-1].prices, times[-1].version)
        clipped: list[Hold] = []
        for time, following in pairwise([*times, PriceTime(inf, -1, {})]):
            for start, end, rates in self.holds(purse, time.prices, time.version):
                low, high = max(start, time.since), min(end, following.since)
                if low < high:
                    clipped.append(Hold(low, high, rates))
        return clipped


def _requests(pod: Pod) -> dict[str, int]:
    """What it holds on its node; nothing where that cannot be read."""
    try:
        return {name: amount for name, amount in pod_requests(pod.spec).items() if amount > 0}
    except QuantityError:
        return {}


def rate_of(holds: Iterable[Hold], now: float) -> dict[str, float]:
    """How much is used in an hour, at a moment."""
    total_rates: dict[str, float] = {}
    for start, end, rates in holds:
        if start <= now < end:
            for name, rate in rates.items():
                total_rates[name] = total_rates.get(name, 0.0) + rate
    return total_rates
