"""Machines that may come in members: which of them jobs that have no room are sent to, and what is promised of them.

A promise begins as an offer: nodes that stand for the machines are put into the hub's state, for this job alone, and
the engine places the job on them as on any nodes, within its queue and its order, or does not. From the dispatch on the
promise holds, until the member has given the job nodes or the time for machines to come is over. As real nodes appear,
the job's pods take their room before any other job is placed there.

Parts of a gang over members have an offer each, which are made and lapse together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from unisono.api.annotations import MACHINES
from unisono.api.base import Object, ObjectMeta, OwnerReference
from unisono.api.core import Node, Pod
from unisono.api.groups.fleet import NodeGroupSummary
from unisono.api.promised_machines import PromisedMachines, may_come_text
from unisono.api.resources import to_wire
from unisono.api.selecting import controller_of
from unisono.api.verdict import Verdict
from unisono.cluster.interning import PodClasses
from unisono.controllers.node_scaling.decide import CAUSES, PATIENCE, Demand, Pool, per_machine
from unisono.controllers.node_scaling.provisioning import BACKOFF_SECONDS, LONGEST_BACKOFF
from unisono.fleet.hub_state import HubState
from unisono.fleet.jobs.copies import Placement
from unisono.fleet.jobs.translation import is_to_come, may_come, own_name, within
from unisono.fleet.machines.members import columns_in, cost_in, node_to_come, rooms_in
from unisono.fleet.machines.ways import Ask, Stock, Way, boot_seconds, ways
from unisono.fleet.reasons import is_allowed
from unisono.kube.clock import Clock
from unisono.kube.pace import Backoff

OFFER_SECONDS: Final = 15.0
"""For which the engine may place a job on machines that are offered to it."""
LOOK_SECONDS: Final = 10.0
_LOOKS: Final = 20
"""Jobs for which machines are looked for in one second."""
_OTHER_WAYS: Final = 8
"""Ways of a gang that are offered in turn, where the engine places it by none of them."""


@dataclass(frozen=True, slots=True)
class Gang:
    """Jobs that get machines together or not at all.

    Attributes:
        waiting: uids of those that have no member.
        most: members that all of them may be in; None for any number.
        fixed: members that have others of them already.
        look: looks at all of them again.
    """

    waiting: frozenset[str]
    most: int | None
    fixed: frozenset[str]
    look: Callable[[], None]


@dataclass(slots=True)
class _Promise:
    """Machines for one job.

    Attributes:
        gang: uid of the gang that it starts with; its own where it stands alone.
        way: what was promised.
        nodes: names in the member of the nodes that stand for machines that have not come, and their groups.
        until: monotonic time at which an offer lapses.
        sent: monotonic time of the dispatch; None while it is an offer.
        taken: how many machines it was sent for, by group.
        look: looks at the job again.
    """

    gang: str
    way: Way
    nodes: dict[str, str]
    until: float
    sent: float | None = None
    taken: dict[str, int] = field(default_factory=dict)
    look: Callable[[], None] | None = None


class Machines:
    """The machines that may come in all members.

    What is learnt of failures and boot times is lost with the hub; what is promised to a job that was sent to its
    member is read from the job again.
    """

    def __init__(self, state: HubState, clock: Clock) -> None:
        self._state, self._clock = state, clock
        self.look_at: Callable[[OwnerReference, str], None] = lambda _owner, _namespace: None
        self._promises: dict[str, _Promise] = {}
        self._lacking: dict[str, float] = {}
        self._pauses: dict[str, tuple[int, float]] = {}
        self._pause = Backoff(base=15.0, cap=300.0)
        self._setbacks: dict[tuple[str, str], tuple[int, float]] = {}
        self._learnt: dict[tuple[str, str], float] = {}
        self._looks = (0, 0)
        self._asks: dict[str, dict[str, Ask]] = {}
        self._looked: dict[str, float] = {}
        self._room_only: set[str] = set()
        state.on_node_group = self._group_changed

    # ---- what there is

    def pools(self, cluster: str) -> list[Pool]:
        """Groups of a member, with as many machines as may still be promised, and the times that were learnt."""
        now, promised = self._clock.monotonic(), self._promised(cluster)
        adjusted = []
        for pool in self._state.pools(cluster, self._clock.time()):
            # Machines that boot are those that were promised, as far as anybody can tell.
            more = max(0, promised[pool.name] - pool.booting)
            back = self._setbacks.get((cluster, pool.name), (0, 0.0))[1] > now
            seconds = self._learnt.get((cluster, pool.name), pool.boot_seconds)
            adjusted.append(
                replace(
                    pool, most=max(pool.replicas, pool.most - more), failing=pool.failing or back, boot_seconds=seconds
                )
            )
        return adjusted

    def all_pools(self, cluster: str) -> list[Pool]:
        """The same with all machines that may come, also those that are promised to jobs."""
        mine = {pool.name: pool.failing for pool in self.pools(cluster)}
        pools = self._state.pools(cluster, self._clock.time())
        return [replace(pool, replicas=pool.replicas - pool.booting, failing=mine[pool.name]) for pool in pools]

    def takes_room_only(self, *uids: str | None) -> bool:
        """Whether the policy of one of these jobs is against machines that may come."""
        return not self._room_only.isdisjoint(uids)

    def choose(self, uid: str, *, room_only: bool) -> None:
        """What the policy of a job says of machines that may come."""
        if room_only:
            self._room_only.add(uid)
        else:
            self._room_only.discard(uid)

    def summary(self, cluster: str) -> list[NodeGroupSummary]:
        """The same for people."""
        promised = self._promised(cluster)
        return [
            NodeGroupSummary(
                name=pool.name,
                may_come=0 if pool.failing else max(0, pool.most - pool.replicas),
                promised=promised[pool.name],
                machine=dict(to_wire(pool.offers)),
                seconds=int(boot_seconds(pool)),
                price_per_hour=f"{pool.cost:.4g}",
            )
            for pool in sorted(self.pools(cluster), key=lambda each: each.name)
        ]

    def note(self, cluster: str) -> str:
        """What may come in a member, for those that wait; empty where it has no groups that grow."""
        groups = self.summary(cluster)
        return f"machines that may come: {may_come_text(groups) or 'none now'}" if groups else ""

    def _group_changed(self, cluster: str) -> None:
        """A member may have given up the machines of a job."""
        for promise in self._promises.values():
            if promise.way.cluster == cluster and promise.look is not None:
                promise.look()

    def _promised(self, cluster: str) -> Counter[str]:
        return Counter(
            pool for each in self._promises.values() if each.way.cluster == cluster for pool in each.nodes.values()
        )

    # ---- who waits for machines

    def take(self, waiting: Iterable[tuple[str, Verdict | None]]) -> None:
        """These gangs wait after a cycle, each with its verdict."""
        now, lacking = self._clock.monotonic(), {}
        for key, verdict in waiting:
            group = self._state.feed.groups.get(key)
            owner = controller_of(group) if group is not None else None
            if group is None or owner is None or not owner.uid or verdict is None or verdict.cause not in CAUSES:
                continue
            lacking[owner.uid] = self._lacking.get(owner.uid, now)
            if owner.uid not in self._lacking:
                self.look_at(owner, group.metadata.namespace or "")
        self._lacking = lacking

    def way_for(self, ask: Ask, *, cheapest: bool) -> tuple[Way | None, float | None]:
        """Machines for a job that stands alone and waits, and after how many seconds to look again.

        Args:
            ask: the job.
            cheapest: whether price counts before time, and before room that is there and costs more.
        """
        early = self._early(ask.uid, ask.clusters, cheapest=cheapest)
        if early is None or early > 0:
            return None, early
        if self._is_busy(1) and not cheapest:
            return None, 1.0
        best = next(ways([ask], self._stocks(ask.clusters), cheapest=cheapest), None)
        return best[ask.uid] if best is not None else None, LOOK_SECONDS

    def ask(self, uid: str, gang: Callable[[], Gang], ask: Ask, *, cheapest: bool) -> float | None:
        """Offer machines to all jobs of a gang as soon as each has asked; answers when to look again.

        Args:
            uid: of the gang.
            gang: answers it; asked where machines may come alone.
            ask: one of its jobs.
            cheapest: see `way_for`.
        """
        early = self._early(uid, self._state.members(), cheapest=cheapest)  # this part alone may have room
        if early is None or early > 0:
            return early
        if (pause := self.left(uid)) is not None:
            return pause
        together = gang()
        asks = self._asks.setdefault(uid, {})
        asks[ask.uid] = ask
        asking = [asks[each] for each in sorted(together.waiting) if each in asks]
        early = self._looked.get(uid, 0.0) + LOOK_SECONDS - self._clock.monotonic()
        if len(asking) < len(together.waiting) or early > 0:
            return max(early, 1.0)
        if self._is_busy(len(asking)):
            return 1.0
        self._looked[uid] = self._clock.monotonic()
        stocks = self._stocks({name for each in asking for name in each.clusters})
        costs = {each.uid: each.gang for each in asking}
        in_turn = ways(
            asking,
            stocks,
            cheapest=cheapest,
            most=together.most,
            fixed=together.fixed,
            cost=lambda cluster, each: cost_in(self._state, cluster, costs[each]),
        )
        # What was counted and could not be had, for reasons that the engine alone knows, is not offered for ever.
        offered = list(islice(in_turn, 1 + self._pauses.get(uid, (0, 0.0))[0] % _OTHER_WAYS))
        if offered:
            for each, way in offered[-1].items():
                self.offer(each, way, uid)
            together.look()
        return LOOK_SECONDS

    def _grows(self, clusters: Iterable[str]) -> bool:
        return any(self._state.is_open(name) and self._state.has_node_groups(name) for name in clusters)

    def _early(self, uid: str, clusters: Collection[str], *, cheapest: bool) -> float | None:
        """Seconds until machines are looked for; None where none may come, or what waits does not wait for nodes."""
        since = self._lacking.get(uid)
        if (not cheapest and since is None) or not self._grows(clusters):
            return None
        return 0.0 if cheapest or since is None else since + PATIENCE - self._clock.monotonic()

    def _is_busy(self, looks: int) -> bool:
        """Whether so many have been looked for in this second that others have to wait."""
        second = int(self._clock.monotonic())
        before = self._looks[1] if self._looks[0] == second else 0
        self._looks = second, before + looks
        return before >= _LOOKS

    def _stocks(self, clusters: Iterable[str]) -> dict[str, Stock]:
        usable = filter(self._state.is_open, clusters)
        return {name: Stock(name, self.pools(name), rooms_in(self._state, name)) for name in usable}

    def lacks_nodes(self, uid: str) -> bool:
        """Whether a job has waited for a while although it was let to all room that there is for it."""
        since = self._lacking.get(uid)
        return since is not None and self._clock.monotonic() - since >= PATIENCE

    # ---- promises

    def promised_in(self, uid: str) -> str:
        """The member whose machines are offered or promised to a job; empty where none are."""
        promise = self._promises.get(uid)
        if promise is not None and promise.sent is None and promise.until <= self._clock.monotonic():
            # Its queue, or what comes before it, kept it from them.
            self.drop(uid)
            failures = self._pauses.get(promise.gang, (0, 0.0))[0] + 1
            self._pauses[promise.gang] = failures, self._clock.monotonic() + self._pause.delay(failures)
            return ""
        return promise.way.cluster if promise is not None else ""

    def left(self, uid: str) -> float | None:
        """Seconds that an offer stands, or until a job or a gang may have another one; None where neither counts."""
        promise, now = self._promises.get(uid), self._clock.monotonic()
        if promise is not None:
            return max(0.0, promise.until - now) if promise.sent is None else None
        until = self._pauses.get(uid, (0, 0.0))[1]
        return until - now if until > now else None

    def is_offered(self, gang: str) -> bool:
        """Whether the jobs of a gang may be placed on machines that may come."""
        return any(each.gang == gang for each in self._promises.values())

    def offer(self, uid: str, way: Way, gang: str = "") -> None:
        """Let the engine place a job on these machines, and nowhere but in their member."""
        self._end(uid)
        promise = _Promise(gang or uid, way, {}, self._clock.monotonic() + OFFER_SECONDS)
        self._promises[uid] = promise
        pools = {pool.name: pool for pool in self._state.pools(way.cluster, self._clock.time(), given=False)}
        for name in sorted(way.machines):
            for _ in range(way.machines[name] if name in pools else 0):
                node = node_to_come(may_come(f"{uid}-{len(promise.nodes)}"), pools[name], uid)
                promise.nodes[node.metadata.name] = name
                self._state.node(way.cluster, "ADDED", node)

    def record(self, uid: str, cluster: str, dispatch: int) -> PromisedMachines | None:
        """What is written down with the dispatch of a job; None where it needs no machines that may come."""
        promise = self._promises.get(uid)
        if promise is None or promise.way.cluster != cluster:
            return None
        needed = {own_name(node) for node in self._state.stand_ins.placed(uid).values() if is_to_come(node)}
        machines = Counter(pool for name, pool in promise.nodes.items() if name in needed)
        if not machines:
            return None
        costs = {pool.name: pool.cost for pool in self._state.pools(cluster, self._clock.time())}
        price = sum(count * costs.get(name, 0.0) for name, count in machines.items())
        return PromisedMachines(dispatch, dict(machines), promise.way.seconds, promise.way.patience, price)

    def sent(
        self, uid: str, cluster: str, record: PromisedMachines | None, look: Callable[[], None] | None = None
    ) -> None:
        """The job is with a member, or waits again where ``cluster`` is empty; ``look`` looks at it again."""
        promise = self._promises.get(uid)
        if promise is None:
            return
        if record is None or promise.way.cluster != cluster:
            self._end(uid)
            return
        promise.sent, promise.taken = self._clock.monotonic(), record.machines
        promise.look = look
        self._pauses.pop(promise.gang, None)
        self._asks.pop(promise.gang, None)
        self._looked.pop(promise.gang, None)

    def adopt(
        self, uid: str, cluster: str, record: PromisedMachines, look: Callable[[], None], most: int, gang: str = ""
    ) -> None:
        """Take over a promise that an earlier hub process made; the time for its machines starts again.

        Users may write such a record; ``most`` is how many machines the job can need, one for each of its pods.
        """
        if uid in self._promises or self._state.stand_ins.has_started(uid):
            return
        if not self.may_be_promised(record, cluster, most):
            return
        way = Way(cluster, record.machines, record.seconds, record.price, record.patience)
        self.offer(uid, way, gang)
        self.sent(uid, cluster, record, look)

    def drop(self, uid: str) -> None:
        """The promise is over: others may have the machines; with an offer go those of its gang."""
        promise = self._promises.get(uid)
        if promise is None:
            return
        offers = [other for other, each in self._promises.items() if each.gang == promise.gang and each.sent is None]
        for other in offers if promise.sent is None else (uid,):
            self._end(other)

    def _end(self, uid: str) -> None:
        promise = self._promises.pop(uid, None)
        if promise is None:
            return
        cluster = promise.way.cluster
        gone = {within(cluster, name) for name in promise.nodes}
        chosen = self._state.stand_ins.chosen(uid)
        self._state.show(
            self._state.stand_ins.settle(uid, {name: "" for name, (_, node) in chosen.items() if node in gone})
        )
        for name in promise.nodes:
            self._state.node(cluster, "DELETED", Node(metadata=ObjectMeta(name=name)))

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self.drop(uid)
        for gang in [gang for gang, asks in self._asks.items() if uid in asks]:
            del self._asks[gang][uid]
            if not self._asks[gang]:
                self.forget(gang)
        self._room_only.discard(uid)
        for noted in (self._pauses, self._lacking, self._asks, self._looked):
            noted.pop(uid, None)

    # ---- replicas, which are no gangs: those of a workload in one member have a promise of their own

    def for_replicas(
        self, pod: Demand, clusters: Iterable[str], ranks: Mapping[str, float], *, cheapest: bool
    ) -> dict[str, int]:
        """For how many replicas machines may come, at most ``pod.count`` in each member, the best members first."""
        ranked = []
        for name in clusters:
            pools = [pool for pool in self.pools(name) if not pool.failing and pool.takes(pod)]
            room = sum(max(0, pool.most - pool.replicas) * per_machine(pool, pod) for pool in pools)
            count = min(room, pod.count)
            way = self.way_of_replicas(replace(pod, count=count), name, cheapest=cheapest) if count else None
            if way is not None:
                first, second = (way.price, way.seconds) if cheapest else (way.seconds, way.price)
                ranked.append((-ranks.get(name, 0.0), first, second, name, count))
        return {name: count for *_, name, count in sorted(ranked)}

    def way_of_replicas(self, pods: Demand, cluster: str, *, cheapest: bool) -> Way | None:
        """Machines of a member for so many replicas; None where there are too few."""
        served = Stock(cluster, self.pools(cluster)).serve([pods], cheapest=cheapest) if pods.count else None
        return served[0] if served is not None else None

    def promise(self, share: str, way: Way, pods: Sequence[Pod], look: Callable[[], None]) -> PromisedMachines:
        """Promise machines to replicas that are sent to a member; ``share`` names them, ``pods`` stand for them."""
        record = PromisedMachines(0, dict(way.machines), way.seconds, way.patience, way.price)
        self.offer(share, way)
        self.stand_for(share, way.cluster, pods)
        self.sent(share, way.cluster, record, look)
        return record

    def is_promised(self, share: str) -> bool:
        """Whether machines are promised to these replicas."""
        return share in self._promises

    def may_be_promised(self, record: PromisedMachines, cluster: str, most: int) -> bool | None:
        """Whether a member has the groups of such a record, which users may write; None as long as it has no groups.

        ``most`` is how many machines can be needed, one for each pod.
        """
        names = {pool.name for pool in self._state.pools(cluster, self._clock.time())}
        if not 0 < sum(max(0, count) for count in record.machines.values()) <= most:
            return False
        return True if record.machines.keys() <= names else None

    def stand_for(self, share: str, cluster: str, pods: Sequence[Pod]) -> None:
        """These replicas have no nodes in their member yet."""
        self._state.show(self._state.stand_ins.put(share, Placement(cluster, 0), pods))
        if (promise := self._promises.get(share)) is not None:
            self._state.feed.state.settle_nodes()
            self._seat(share, promise)

    def keep(self, share: str) -> None:
        """All of these replicas have nodes; where that took fewer machines, nothing is learnt of how long they take."""
        if (promise := self._promises.get(share)) is not None and not promise.nodes:
            self._kept(share, promise)
        self.release(share)

    def release(self, share: str) -> None:
        """These replicas wait for no machines any more."""
        self._end(share)
        self._state.unstand(share)

    def time_left(self, uid: str) -> float | None:
        """Seconds that the machines of a job have left to come; None where it waits for none."""
        promise = self._promises.get(uid)
        if promise is None or promise.sent is None:
            return None
        pools = {pool.name: pool for pool in self._state.pools(promise.way.cluster, self._clock.time())}
        if any(name not in pools or pools[name].failing for name in promise.nodes.values()):
            return 0.0  # the member has given them up itself
        return max(0.0, promise.sent + promise.way.patience - self._clock.monotonic())

    def has_begun(self, job: Object) -> bool:
        """Whether a job that was sent for machines has nodes of its member."""
        uid = job.metadata.uid or ""
        return (
            MACHINES in (job.metadata.annotations or {})
            and uid not in self._promises
            and self._state.stand_ins.has_started(uid)
        )

    def failed(self, uid: str) -> None:
        """The machines have not come: their groups are passed by, the longer the more often."""
        promise = self._promises.get(uid)
        for name in set(promise.nodes.values()) if promise is not None else ():
            key = (promise.way.cluster, name) if promise is not None else ("", "")
            failures = self._setbacks.get(key, (0, 0.0))[0] + 1
            rest = min(BACKOFF_SECONDS * 2 ** min(failures - 1, 10), LONGEST_BACKOFF)
            self._setbacks[key] = failures, self._clock.monotonic() + rest
        self.drop(uid)

    def settle(self) -> None:
        """Before a cycle: pods take the room of nodes that have come, and promises that are kept end."""
        if self._promises:
            self._state.feed.state.settle_nodes()
        for uid, promise in list(self._promises.items()):
            if promise.way.cluster not in self._state.members():
                self.drop(uid)
            elif promise.sent is None:
                continue
            elif self._state.stand_ins.has_started(uid):
                self._kept(uid, promise)
            else:
                self._seat(uid, promise)

    def _kept(self, uid: str, promise: _Promise) -> None:
        seconds = self._clock.monotonic() - (promise.sent or 0.0) - PATIENCE
        for name in promise.taken:
            key = promise.way.cluster, name
            before = self._learnt.get(key)
            self._learnt[key] = max(1.0, seconds) if before is None else max(1.0, (before + seconds) / 2)
            self._setbacks.pop(key, None)
        self.drop(uid)
        if promise.look is not None:
            promise.look()

    def _seat(self, uid: str, promise: _Promise) -> None:
        """Pods that count on machines that have not come, the largest first, count on nodes that have room now."""
        table, cluster = self._state.feed.state.nodes, promise.way.cluster
        chosen = self._state.stand_ins.chosen(uid)
        waiting = {name: pod for name, (pod, node) in chosen.items() if node not in table.index or is_to_come(node)}
        if not waiting:
            self._release(promise, set())
            return
        classes, columns = PodClasses(table.registry), columns_in(self._state, cluster)
        mine = [at for name in promise.nodes if (at := table.index.get(within(cluster, name))) is not None]
        free = {at: table.allocatable[:, at] - table.used[:, at] for at in columns}
        # Anew for all of them: those that find no real node keep as few machines as they need.
        free |= {at: table.allocatable[:, at].copy() for at in mine}
        seats: dict[str, str] = {}
        made = {
            name: classes.intern(pod.spec, pod.metadata.annotations, pod.metadata.namespace or "")
            for name, pod in waiting.items()
        }
        for name in sorted(made, key=lambda each: (sorted(made[each].requests.items(), reverse=True), each)):
            rows = made[name].rows
            for at in (*columns, *mine):
                if len(rows) and (
                    rows[-1] >= len(table.allocatable) or (free[at][rows] < made[name].vector[rows]).any()
                ):
                    continue
                if at in mine or is_allowed(table, at, made[name]):
                    free[at][rows] -= made[name].vector[rows]
                    seats[name] = table.names[at]
                    break
        self._state.show(
            self._state.stand_ins.settle(uid, {name: seat for name, seat in seats.items() if seat != chosen[name][1]})
        )
        self._release(promise, {own_name(seat) for seat in seats.values()})

    def _release(self, promise: _Promise, needed: Collection[str]) -> None:
        for name in [name for name in promise.nodes if name not in needed]:
            del promise.nodes[name]
            self._state.node(promise.way.cluster, "DELETED", Node(metadata=ObjectMeta(name=name)))
