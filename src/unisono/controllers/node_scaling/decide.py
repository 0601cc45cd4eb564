"""How many machines the waiting gangs need, and of which pools (pure).

A gang gets machines for all of its pods or none: half a gang's machines would cost money and run nothing. Of all the
ways to serve a gang that are tried, the cheapest is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from unisono.api.annotations import GANG_PARTS, GOT
from unisono.api.core import NodeSelector, Pod, PodSpec, Taint, Toleration
from unisono.api.gang_parts import decode_parts
from unisono.api.groups.scheduling import PodGroup
from unisono.api.licenses import is_floating
from unisono.api.node_usage import cost_per_hour
from unisono.api.one_of import one_of, times_of
from unisono.api.resources import pod_requests, resource_list
from unisono.api.selecting import pod_group_of
from unisono.api.verdict import Cause, Verdict, verdict_in
from unisono.controllers.workloads.templates import allows, tolerates

Amounts = Mapping[str, int]

MOST_MACHINES = 5000
"""Machines of one pool that are looked at: nodes of the largest cluster that Kubernetes is made for."""
MOST_TRIES = 100_000
"""Places that are looked at for one gang; a gang that needs more gets no machines, so that others get theirs."""
MOST_WAYS = 8
"""Pools that are tried as the first choice of one gang."""
ESTIMATED_PRICES: Mapping[str, float] = {"cpu": 0.04, "memory": 0.005}
"""Of a machine that states no price: per core and per gibibyte, an hour."""
DEVICE_PRICE = 2.0
"""The same, per device of any kind."""
_PLAIN = ("cpu", "memory", "pods", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Demand:
    """Pods that are alike and need places.

    Attributes:
        requests: what each needs, engine units.
        selector: labels that their nodes must have.
        tolerations: taints that they endure.
        count: how many they are.
        affinity: the node affinity that they require.
        kinds: labels of kinds of nodes of which the whole gang takes one, the best first; empty: any.

    """

    requests: Amounts
    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    count: int = 1
    affinity: NodeSelector | None = None
    kinds: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Pool:
    """Machines that are all alike.

    Attributes:
        name: unique; ties go to the first name.
        replicas: machines that were asked for.
        booting: those of them that take no pods yet.
        most: the largest number of machines.
        offers: what one machine has for pods, engine units.
        labels: of its node.
        taints: of its node.
        least: the smallest number of machines; None where machines are not to be taken away.
        price: of one machine, an hour; None where it is to be estimated from what a machine offers.
        spot: the cloud may take its machines back.
        failing: machines that it was asked for have not come: it is passed by, and those that boot do not count.
        unneeded_seconds: how long a machine must have been without use before it is given back.
        boot_seconds: from the request for a machine until its node is ready for pods; None if unknown.
        provision_seconds: in which machines must have come, or others are asked for.

    """

    name: str
    replicas: int
    booting: int
    most: int
    offers: Amounts
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    least: int | None = None
    price: float | None = None
    spot: bool = False
    failing: bool = False
    unneeded_seconds: float = 600.0
    boot_seconds: float | None = None
    provision_seconds: float = 900.0

    def takes(self, pod: Demand) -> bool:
        """An empty machine would do for the pod."""
        return (
            all(amount <= self.offers.get(name, 0) for name, amount in pod.requests.items())
            and all(self.labels.get(key) == value for key, value in pod.selector.items())
            and all(each.effect == "PreferNoSchedule" or tolerates(pod.tolerations, each) for each in self.taints)
            and (pod.affinity is None or allows(pod.affinity, self.name, self.labels))
        )

    @property
    def cost(self) -> float:
        """Price of one machine, an hour."""
        if self.price is not None:
            return self.price
        devices = sum(amount for name, amount in self.offers.items() if name not in _PLAIN)
        return cost_per_hour(self.offers, ESTIMATED_PRICES) + DEVICE_PRICE * devices / 1000


@dataclass(frozen=True, slots=True)
class Growth:
    """Replicas by pool for pools that should grow, why these, and from which pools machines come for which gang."""

    replicas: Mapping[str, int]
    reasons: Mapping[str, str]
    served: Mapping[int, frozenset[str]] = field(default_factory=dict)


def wanted(gangs: Iterable[Sequence[Demand]], pools: Sequence[Pool]) -> dict[str, int]:
    """Replicas by pool, for pools that should grow; see ``growth``."""
    return dict(growth(gangs, pools).replicas)


def growth(gangs: Iterable[Sequence[Demand]], pools: Sequence[Pool]) -> Growth:
    """Which pools should grow.

    Args:
        gangs: for each gang the pods that have no place, who waits longest first.
        pools: machines to choose from.

    """
    now, reasons, served = Trial(pools, booting(pools)), dict[str, str](), dict[int, frozenset[str]]()
    for at, gang in enumerate(gangs):
        before = now.planned
        trial = next((one for way in _ways(gang) if (one := serve(way, now)) is not None), None)
        if trial is None:
            continue
        now = trial
        more = frozenset(name for name, count in now.planned.items() if count > before.get(name, 0))
        for name in more:
            reasons[name] = _reason(name, before, now, pools)
        if more:
            served[at] = more
    replicas = {pool.name: pool.replicas + count for pool in pools if (count := now.planned[pool.name])}
    return Growth(replicas, reasons, served)


def _ways(gang: Sequence[Demand]) -> Iterator[Sequence[Demand]]:
    """The gang on each of the kinds of nodes of which it takes one, the best first."""
    for at in range(max((len(pods.kinds) for pods in gang), default=0) or 1):
        yield [
            replace(pods, selector={**pods.selector, **pods.kinds[min(at, len(pods.kinds) - 1)]}, kinds=())
            if pods.kinds
            else pods
            for pods in gang
        ]


def remainders(gangs: Iterable[Sequence[Demand]], rooms: Sequence[Room]) -> list[list[Demand]]:
    """For each gang the pods for which these rooms have no place; the rooms fill up."""
    trial = Trial((), rooms)
    return [_filled(gang, trial) for gang in gangs]


def fill(gang: Sequence[Demand], rooms: Sequence[Room]) -> tuple[list[Demand], list[Room]]:
    """The pods of a gang for which these rooms have no place, and what the others leave of the rooms."""
    trial = Trial((), rooms)
    return _filled(gang, trial), trial.machines


def _filled(gang: Sequence[Demand], trial: Trial) -> list[Demand]:
    parts = list(_joined(sorted(gang, key=_size, reverse=True)))
    return [replace(part, count=left) for part in parts if (left := trial.fill(part))]


@dataclass(slots=True)
class Room:
    """What is free on one machine, which is there, boots, or is planned."""

    pool: Pool
    free: dict[str, int]
    used: bool = False

    def take(self, pods: Demand, wanted: int) -> int:
        """Take as many of the pods as there is room for, up to ``wanted``; answers how many."""
        if not self.pool.takes(pods):
            return 0
        asked = {name: amount for name, amount in pods.requests.items() if amount > 0}
        taken = min([wanted, *(self.free.get(name, 0) // amount for name, amount in asked.items())])
        for name, amount in asked.items():
            self.free[name] = self.free.get(name, 0) - taken * amount
        self.used |= taken > 0
        return taken


def booting(pools: Iterable[Pool]) -> list[Room]:
    """Machines that will be there soon."""
    coming = ((pool, min(pool.booting, MOST_MACHINES)) for pool in pools if not pool.failing)
    return [Room(pool, dict(pool.offers)) for pool, count in coming for _ in range(count)]


class Trial:
    """What would be if more gangs were served.

    Attributes:
        machines: that are there or planned; one is looked at after the other.
        planned: new machines by pool.

    """

    def __init__(
        self, pools: Sequence[Pool], machines: Sequence[Room], planned: Mapping[str, int] | None = None
    ) -> None:
        self.pools = pools
        self.machines = [Room(each.pool, dict(each.free), each.used) for each in machines]
        self.planned = dict(planned) if planned is not None else {pool.name: 0 for pool in pools}
        self._tries = 0

    def copy(self) -> Trial:
        """The same state, to go on from."""
        return Trial(self.pools, self.machines, self.planned)

    @property
    def cost(self) -> float:
        """Of all planned machines, an hour."""
        return sum(pool.cost * self.planned[pool.name] for pool in self.pools)

    def place(self, pods: Demand, first: str = "") -> bool:
        """Find places for all of the pods, on new machines of pool ``first`` rather than of others."""
        left = self.fill(pods)
        for pool in self._by_cost(pods, first):
            most = min(pool.most - pool.replicas, MOST_MACHINES)
            while left and self.planned[pool.name] < most:
                if self._is_too_much():
                    return False
                machine = Room(pool, dict(pool.offers))
                left -= machine.take(pods, left)
                self.machines.append(machine)
                self.planned[pool.name] += 1
        return not left

    def fill(self, pods: Demand) -> int:
        """Place as many of the pods as the machines have room for; answers how many are left."""
        left = pods.count
        for machine in self.machines:
            if not left or self._is_too_much():
                break
            left -= machine.take(pods, left)
        return left

    def _by_cost(self, pods: Demand, first: str) -> list[Pool]:
        """Pools whose machines would do, those first that are cheapest for one such pod."""
        fitting = [pool for pool in self.pools if not pool.failing and pool.takes(pods)]
        return sorted(fitting, key=lambda pool: (pool.name != first, pool.cost / per_machine(pool, pods), pool.name))

    def _is_too_much(self) -> bool:
        self._tries += 1
        return self._tries > MOST_TRIES


def serve(gang: Sequence[Demand], now: Trial) -> Trial | None:
    """The cheapest way that serves the whole gang after what is already planned; None where there is none."""
    # The largest pods first: small ones fit in between.
    parts = list(_joined(sorted(gang, key=_size, reverse=True)))
    choices = [pool.name for pool in now.pools if not pool.failing and any(pool.takes(part) for part in parts)]
    best: Trial | None = None
    for first in ("", *sorted(choices)[:MOST_WAYS]):
        trial = now.copy()
        if not all(trial.place(part, first) for part in parts):
            continue
        if best is None or (trial.cost, len(trial.machines)) < (best.cost, len(best.machines)):
            best = trial
        if trial.planned == now.planned:
            break
    return best


def _reason(name: str, before: Mapping[str, int], now: Trial, pools: Sequence[Pool]) -> str:
    pool = next(each for each in pools if each.name == name)
    count = now.planned[name] - before.get(name, 0)
    kind = "spot" if pool.spot else "on-demand"
    machines = "machine" if count == 1 else "machines"
    passed = [each.name for each in pools if each.failing and each.name != name]
    also = f"; passed by, for their machines did not come: {', '.join(passed[:5])}" if passed else ""
    return f"{count} {kind} {machines} at {pool.cost:.4g} an hour each, the cheapest way to serve the whole gang{also}"


def per_machine(pool: Pool, pods: Demand) -> int:
    """How many of these pods a machine of the pool takes, one at least."""
    fits = (pool.offers.get(name, 0) // amount for name, amount in pods.requests.items() if amount > 0)
    return max(1, min([pods.count, *fits]))


def _joined(pods: Iterable[Demand]) -> Iterator[Demand]:
    """Neighbours that are alike as one."""
    for first, same in groupby(pods, key=lambda each: replace(each, count=1)):
        yield replace(first, count=sum(each.count for each in same))


def _size(pod: Demand) -> tuple[tuple[str, int], ...]:
    rest = sorted((name, amount) for name, amount in pod.requests.items() if name not in ("cpu", "memory"))
    return (*rest, ("cpu", pod.requests.get("cpu", 0)), ("memory", pod.requests.get("memory", 0)))


# Gangs that wait for nodes, as their verdicts tell, and what their pods need of a node.

CAUSES = frozenset({Cause.NODES_FULL, Cause.TOO_LARGE, Cause.FILTERS, Cause.CLUSTER_OVERCOMMITTED, Cause.NO_NODES})
"""Verdicts that more nodes can change; a queue's limits are not among them."""
PATIENCE = 20.0
"""Seconds that a gang waits before nodes are made for it."""
POD_INDEX = "pod-group-of-pod"


def verdict_of(group: PodGroup) -> Verdict:
    """The scheduler's latest verdict; one without a cause where there is none."""
    return verdict_in(group.metadata.annotations) or Verdict()


def groups_of(pod: Pod) -> list[str]:
    """Index function: key of the pod's PodGroup."""
    return [key] if (key := pod_group_of(pod)) else []


def is_pending(pod: Pod) -> bool:
    """The pod has no node and has not ended."""
    return not pod.spec.node_name and pod.status.phase in (None, "", "Pending")


def demand_of(spec: PodSpec, count: int = 1, *, notes: Mapping[str, str] | None = None) -> Demand:
    """What so many pods of this spec need of nodes; ``notes`` are annotations of theirs, or of their PodGroup."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return Demand(
        {name: amount for name, amount in pod_requests(spec).items() if not is_floating(name)},
        dict(spec.node_selector or {}),
        tuple(spec.tolerations or ()),
        count,
        affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None,
        _kinds(notes or {}),
    )


def _kinds(notes: Mapping[str, str]) -> tuple[Mapping[str, str], ...]:
    """Those on which pods take what they ask for as they are, first the one that the gang has got."""
    said, got = one_of(notes, {}), notes.get(GOT, "")
    if said is None:
        return ()
    made = times_of(got)
    kinds = sorted(said.kinds, key=lambda kind: kind.name != got)
    return tuple(dict(kind.labels) for kind in kinds if kind.times == made)


def promised(group: PodGroup) -> list[Demand]:
    """A gang whose pods are made after its admission: its parts, or its minimum in equal ones."""
    parts = decode_parts((group.metadata.annotations or {}).get(GANG_PARTS, ""))
    if parts:
        notes = group.metadata.annotations
        return [demand_of(part.spec, part.count, notes=notes) for part in parts if part.count > 0]
    count = group.spec.min_member or 0
    total = {name: each for name, each in resource_list(group.spec.min_resources).items() if not _is_of_quota(name)}
    if not total or count <= 0:
        return []
    return [Demand({name: -(-amount // count) for name, amount in total.items()}, count=count)]


def _is_of_quota(name: str) -> bool:
    """Only quotas know the name, or it lies on no node: no node offers it."""
    return name == "pods" or is_floating(name) or name.startswith(("requests.", "limits.", "count/"))


LASTING = frozenset(
    {
        Cause.LICENSES,
        Cause.OVER_SHARE,
        Cause.OVER_CAPABILITY,
        Cause.QUOTA,
        Cause.BUDGET,
        Cause.TOPOLOGY,
        Cause.GATED,
        Cause.EXTENDER,
        Cause.INVALID,
        Cause.QUEUE_MISSING,
        Cause.QUEUE_CLOSED,
        Cause.QUEUE_INVALID,
        Cause.QUEUE_FORBIDDEN,
    }
)
"""Causes that more nodes do not remove: they last until a limit, the queue or the job changes. Others pass."""


@dataclass(slots=True)
class _Help:
    """When room was made for one, how long it pauses from then on, and the lasting cause for which it was in vain."""

    since: float
    pause: float
    in_vain: str = ""


@dataclass(slots=True)
class Helped:
    """For whom room was made. Who then waits for something else, and for long, was helped in vain.

    What else a gang waits for, such as licences or its queue's share, its verdict may name only once there is room.
    Without a memory the room would be given to others or given back then, and be made again, without end. So none is
    made for the same gang before a pause is over, which doubles each time. Who waits for nodes again while the room
    is still there is over what else it waited for: others have taken the room.

    Args:
        first: seconds of the first pause.
        longest: of the longest one.

    """

    first: float
    longest: float
    _of: dict[str, _Help] = field(default_factory=dict)

    def resting(self, cause_of: Callable[[str], str], now: float, given_back: float = float("inf")) -> set[str]:
        """Those for which no room is made now.

        Args:
            cause_of: answers why one waits; who does not is forgotten.
            now: seconds since 1970.
            given_back: when room went last, so that what was made since is there.

        """
        for name, help_ in list(self._of.items()):
            cause = cause_of(name)
            if not cause:
                del self._of[name]
            elif cause in LASTING:
                help_.in_vain = cause
            elif cause in CAUSES and help_.since >= given_back:
                help_.in_vain = ""
        return {name for name, each in self._of.items() if each.in_vain and now - each.since < each.pause}

    def rest_of(self, name: str) -> tuple[float, str]:
        """Until when one of them rests, and the cause for which room was made in vain."""
        return self._of[name].since + self._of[name].pause, self._of[name].in_vain

    def add(self, names: Iterable[str], now: float) -> None:
        """Room is made for them."""
        for name in names:
            before = self._of.get(name, _Help(now, self.first))
            pause = min(2 * before.pause, self.longest) if before.in_vain else before.pause
            self._of[name] = _Help(now, pause)
