"""Divides the replicated workloads of one kind over members, and keeps copies and statuses in step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import numpy as np

from unisono.api.annotations import DIVISION, HUB, MACHINES, ORIGIN_UID, WORKER_LOST_TIMEOUT
from unisono.api.base import Object, ObjectMeta
from unisono.api.core import Pod
from unisono.api.groups.propagation import LEAST_COST, ROOM_ONLY, Placement
from unisono.api.kind import Kind
from unisono.api.kind_families import BATCH_JOBS
from unisono.api.promised_machines import PromisedMachines, machines_of_replicas, machines_text
from unisono.api.times import parse_time
from unisono.cluster.interning import PodClasses
from unisono.cluster.podclass import PodClass
from unisono.controllers.node_scaling.decide import PATIENCE, demand_of
from unisono.controllers.objects import LastWritten, delete_seen, write_status
from unisono.controllers.recorder import Announcer, Notice, Recorder
from unisono.errors import AlreadyExists, ApiError, Conflict, NotFound, UnisonoError
from unisono.fleet.division.plan import Candidates, NotEnoughRoom, Wish, apportion, plan, plan_growing
from unisono.fleet.division.status import summed
from unisono.fleet.hub_state import HubState
from unisono.fleet.jobs.copies import Copy, annotated_seconds, expires_in
from unisono.fleet.jobs.decide import WORKER_LOST_TIMEOUT as DEFAULT_TIMEOUT
from unisono.fleet.jobs.decide import MemberView, is_trusted
from unisono.fleet.jobs.replicas import changes_of, copy_with, record_text, recorded, replicas_of
from unisono.fleet.jobs.translation import OTHER_SCHEDULER, may_come
from unisono.fleet.jobs.work import bare, disbelief
from unisono.fleet.machines.promises import Machines
from unisono.fleet.machines.ways import Way
from unisono.fleet.members.joining import bring, is_refusal, name_taken, namesake, remove_copies
from unisono.fleet.members.member import Busy, Member
from unisono.fleet.policies.book import PolicyBook
from unisono.fleet.policies.rules import TIER, Rules
from unisono.fleet.reasons import room_by_member
from unisono.fleet.telling import Telling
from unisono.jobkinds.registry import has_ended
from unisono.kube.clock import Clock
from unisono.kube.controller import Context, Controller, sooner

_LOOK_AGAIN: Final = 15.0
"""Seconds until room is looked for again."""
_BUSY: Final = 1.0
_FLIGHT: Final = 20.0
_GONE: Final = MemberView(False, float("inf"))


@dataclass(slots=True)
class Flights:
    """Replicas that were sent and may not be seen in the state yet: no one else is promised their room meanwhile."""

    clock: Clock
    sent: list[tuple[float, str, Any]] = field(default_factory=list)

    def add(self, cluster: str, pod_class: PodClass, count: int) -> None:
        """So many replicas are on their way."""
        if count > 0:
            self.sent.append((self.clock.monotonic() + _FLIGHT, cluster, pod_class.vector * count))

    def taken(self, pod_class: PodClass) -> dict[str, int]:
        """How many replicas of a class what is on its way takes the room of, by cluster."""
        now = self.clock.monotonic()
        self.sent = [each for each in self.sent if each[0] > now]
        replicas: dict[str, int] = {}
        rows = np.flatnonzero(pod_class.vector)
        for _, cluster, vector in self.sent:
            there = rows[rows < len(vector)]
            if len(there):
                replicas[cluster] = replicas.get(cluster, 0) + int(np.max(-(-vector[there] // pod_class.vector[there])))
        return replicas


@dataclass(frozen=True, slots=True)
class _Result:
    """What a look at a workload says.

    Attributes:
        division: replicas by member.
        why: why that is not what it should be; empty where it is.
        again: when to look again.
        coming: machines that some of the replicas are sent for, by member, and how many those are.
    """

    division: dict[str, int]
    why: str = ""
    again: float | None = None
    coming: Mapping[str, tuple[Way, int]] = field(default_factory=dict)


class DivisionController(Controller):
    """The workloads of one kind that a PropagationPolicy is about."""

    workers = 16

    def __init__(
        self,
        kind: Kind[Any],
        state: HubState,
        members: Callable[[str], Member | None],
        recorder: Recorder,
        book: PolicyBook,
        flights: Flights,
        machines: Machines,
    ) -> None:
        """``members`` finds the connection to a member; ``flights`` is shared by the controllers of all kinds."""
        self._machines = machines
        self._short: dict[str, float] = {}
        self._shares: dict[str, set[str]] = {}
        self._since: dict[str, float] = {}
        self.kind, self.name = kind, f"fleet-{kind.group}-{kind.plural}"
        self._state, self._members, self._book, self._flights = state, members, book, flights
        self._recorder, self._announcer = recorder, Announcer(recorder)
        self._written: LastWritten[Any] = LastWritten()
        self._telling = Telling(recorder)

    def setup(self, context: Context) -> None:
        """Watch the workloads and their copies."""
        self._client, self._clock, self._context = context.client, context.clock, context
        self._objects = context.watch(self.kind, optional=True)
        self._announcer.forget_deleted(self._objects)
        self._state.on_copy(self._copy_changed)

    def look_again(self) -> None:
        """Rules or members have changed."""
        for obj in self._objects.items():
            self._context.enqueue(obj.key)
        for resource, key in self._state.copy_keys():
            if resource == self.kind.resource:
                self._context.enqueue(key)

    def job(self, key: str) -> Any | None:
        """The newest state of a workload."""
        return self._written.newest(key, self._objects.get(key))

    async def reconcile(self, key: str) -> float | None:
        """Divide one workload and bring its copies to where they belong."""
        with self._telling.look(key):
            return await self._reconcile(key)

    async def _reconcile(self, key: str) -> float | None:
        obj = self.job(key)
        if obj is not None and obj.metadata.deletion_timestamp:
            obj = None
        copies = self._copies(key)
        uid = obj.metadata.uid if obj is not None else ""
        await self._delete([copy for copy, _ in copies if copy.origin != uid])
        if obj is None or has_ended(obj):
            self._release(key)
        if obj is None:
            return None
        own = {copy.cluster: (copy, found) for copy, found in copies if copy.origin == uid}
        before = recorded(obj)
        if has_ended(obj):
            left = expires_in(obj, self._clock.time())
            if left is not None and left <= 0:
                await delete_seen(self._client, self.kind, obj)
            return left or None
        waiting = machines_of_replicas(obj)
        present, still = self._followed(obj, before, waiting)
        result = self._divided(obj, present)
        division, why, again = result.division, result.why, sooner(result.again, _LOOK_AGAIN if still else None)
        still = {name: each for name, each in still.items() if name in division}
        if division != before or still != waiting or result.coming:
            await self._record(obj, before, result, still)
            return 0.0
        if why:
            self._telling.tell(obj, "NotDivided", why)
        complete = await self._carry_out(obj, division, own)
        await self._write_status(obj, division, own, complete=complete, why=why, coming=still)
        if not all(self._state.views.get(name, _GONE).reachable for name in division):
            return min(_LOOK_AGAIN, again or _LOOK_AGAIN)
        return again

    # ---- dividing

    def _divided(self, obj: Any, before: Mapping[str, int]) -> _Result:
        policy = self._book.policy(self.kind, obj)
        if policy is None:
            if not before:
                text = "no PropagationPolicy selects it, so it runs nowhere: a hub runs no pods itself"
                self._announcer.tell(obj, [Notice("Warning", "NotPropagated", text, once="policy")])
            return _Result(dict(before))
        if self.kind is BATCH_JOBS and before:
            return _Result(dict(before))  # completed work cannot be divided again
        pod_class = self._class(obj)
        rules = self._rules(obj)
        names = self._candidates(obj, rules, before)
        taken = self._flights.taken(pod_class)
        room = {
            name: max(0, free - taken.get(name, 0)) if self._state.is_open(name) else 0
            for name, (free, _) in room_by_member(self._state.feed.state.nodes, pod_class).items()
        }
        wish = Wish(replicas_of(self.kind, obj), obj.metadata.uid or "", together=_is_indexed(self.kind, obj))
        candidates = Candidates(names, room, {name: count for name, count in before.items() if name in names})
        coming: dict[str, tuple[Way, int]] = {}
        try:
            division = plan(wish, policy.spec.placement, self._book.clusters(), candidates)
        except NotEnoughRoom as error:
            again = min(_LOOK_AGAIN, rules.again or _LOOK_AGAIN)
            if (early := self._early(obj, rules)) != 0.0:
                return _Result(dict(before), str(error), min(again, early or again))
            try:
                division, coming = self._grown(obj, policy.spec.placement, wish, candidates, rules)
            except NotEnoughRoom:
                notes = (f"{name}: {note}" for name in names if (note := self._machines.note(name)))
                return _Result(dict(before), "; ".join([str(error), *notes]), again)
        self._short.pop(obj.key, None)
        for name, count in division.items():
            self._flights.add(name, pod_class, count - before.get(name, 0) - (coming[name][1] if name in coming else 0))
        return _Result(division, "", rules.again, coming)

    def _early(self, obj: Any, rules: Rules) -> float | None:
        """Seconds until machines are looked for, as room that is there comes first; None where they are not."""
        now = self._clock.monotonic()
        since = self._short.setdefault(obj.key, now)
        return None if rules.choice == ROOM_ONLY else max(0.0, since + PATIENCE - now)

    def _grown(
        self, obj: Any, placement: Placement, wish: Wish, candidates: Candidates, rules: Rules
    ) -> tuple[dict[str, int], dict[str, tuple[Way, int]]]:
        """Replicas by member where there is room or machines may come, and these machines.

        Raises:
            NotEnoughRoom: also machines do not serve all.
        """
        cheapest = rules.choice == LEAST_COST
        pod = demand_of(obj.spec.template.spec, max(0, wish.replicas - sum(candidates.present.values())))
        members = [name for name in candidates.names if self._state.is_open(name)]
        growing = self._machines.for_replicas(pod, members, rules.points.get(TIER, {}), cheapest=cheapest)
        grown = plan_growing(wish, placement, self._book.clusters(), candidates, growing)
        coming = {}
        for name, count in grown.coming.items():
            way = self._machines.way_of_replicas(replace(pod, count=count), name, cheapest=cheapest)
            if way is None:
                raise NotEnoughRoom(f"no machines may come in {name}")
            coming[name] = way, count
        return dict(grown.shares), coming

    # ---- machines that are to come

    def _followed(
        self, obj: Any, before: Mapping[str, int], waiting: Mapping[str, PromisedMachines]
    ) -> tuple[dict[str, int], dict[str, PromisedMachines]]:
        """Replicas by member without those for which no machines have come, and the machines that are still to come."""
        present, still = dict(before), dict[str, PromisedMachines]()
        uid = obj.metadata.uid or ""
        for name, record in waiting.items():
            share, number = _share(uid, name), before.get(name, 0)
            if not number:
                self._end(share)
                continue
            bound = min(self._state.replicas_with_nodes(uid, name), number)
            pods = self._stand_ins(obj, name, number - bound)
            if not pods:
                self._machines.keep(share)
                self._since.pop(share, None)
                continue
            since = self._since.setdefault(share, self._clock.monotonic())
            if self._machines.is_promised(share):
                self._machines.stand_for(share, name, pods)
            elif able := self._machines.may_be_promised(record, name, number):
                # An earlier hub process made this promise; the time for its machines starts again.
                way = Way(name, record.machines, record.seconds, record.price, record.patience)
                self._promise(obj, way, pods)
            elif able is False:
                continue  # nothing that a hub wrote
            left = self._machines.time_left(share)
            if left is None:  # the member has not told of its groups
                left = max(0.0, since + record.patience - self._clock.monotonic())
            if left:
                still[name] = record
                continue
            self._machines.failed(share)
            self._end(share)
            text = f"{machines_text(record.machines)} in member {name} have not come in time"
            self._telling.tell(obj, "MachinesLate", text)
            if self.kind is not BATCH_JOBS:
                present[name] = bound
        return {name: count for name, count in present.items() if count}, still

    def _promise(self, obj: Any, way: Way, pods: Sequence[Pod]) -> PromisedMachines:
        share = _share(obj.metadata.uid or "", way.cluster)
        self._shares.setdefault(obj.key, set()).add(share)
        return self._machines.promise(share, way, pods, lambda: self._context.enqueue(obj.key))

    def _release(self, key: str) -> None:
        self._short.pop(key, None)
        for share in self._shares.pop(key, ()):
            self._end(share)

    def _end(self, share: str) -> None:
        self._machines.release(share)
        self._since.pop(share, None)

    def _stand_ins(self, obj: Any, cluster: str, count: int) -> list[Pod]:
        """Pods that stand for replicas without nodes."""
        meta, spec = obj.metadata, bare(Pod(spec=obj.spec.template.spec)).spec
        spec = msgspec.structs.replace(spec, scheduler_name=OTHER_SCHEDULER, node_name=None)
        names = (may_come(f"{meta.uid}-{cluster}-{at}") for at in range(max(0, count)))
        return [Pod(metadata=ObjectMeta(name=name, namespace=meta.namespace), spec=spec) for name in names]

    def _rules(self, obj: Object) -> Rules:
        made = obj.metadata.creation_timestamp
        waited = max(0.0, self._clock.time() - parse_time(made)) if made else 0.0
        return self._book.rules(self.kind, obj, (), waited, {})

    def _candidates(self, obj: Object, rules: Rules, before: Mapping[str, int]) -> list[str]:
        """Members that may have replicas: those that take work, and those that have some and are not lost for good."""
        views = self._state.views
        timeout = annotated_seconds(obj, WORKER_LOST_TIMEOUT, DEFAULT_TIMEOUT)
        trusted = is_trusted(views)
        ranks = rules.points.get(TIER, {})
        eligible = []
        for name in self._state.members():
            keeps = before.get(name, 0) and (views.get(name, _GONE).lost_seconds < timeout or not trusted)
            if name not in rules.outside and (self._state.is_open(name) or keeps):
                eligible.append(name)
        return sorted(eligible, key=lambda name: (-ranks.get(name, 0.0), name))

    def _class(self, obj: Any) -> PodClass:
        template = obj.spec.template
        meta = template.metadata
        pod = Pod(metadata=meta, spec=template.spec)
        classes = PodClasses(self._state.feed.state.registry)
        return classes.intern(pod.spec, meta.annotations, obj.metadata.namespace or "")

    async def _record(
        self, obj: Any, before: Mapping[str, int], result: _Result, still: Mapping[str, PromisedMachines]
    ) -> None:
        """Write down the division, and machines that replicas are sent for, before it is sent to any member."""
        meta, division = obj.metadata, result.division
        promised = {}
        for name, (way, count) in result.coming.items():
            earlier, waiting = still.get(name), 0
            if earlier is not None:  # more of them, beside those that wait already
                waiting = before.get(name, 0) - self._state.replicas_with_nodes(meta.uid or "", name)
            pods = self._stand_ins(obj, name, count + waiting)
            promised[name] = self._promise(obj, _both(earlier, way) if earlier is not None else way, pods)
        coming = {**still, **promised}
        text = msgspec.json.encode(coming, order="deterministic").decode() if coming else None
        notes = {DIVISION: record_text(division), MACHINES: text}
        if not coming and MACHINES not in (meta.annotations or {}):
            del notes[MACHINES]
        marks = {"resourceVersion": meta.resource_version, "annotations": notes}
        try:
            written = await self._client.patch(self.kind, meta.name, {"metadata": marks}, namespace=meta.namespace)
        except (UnisonoError, OSError):
            for name in promised:
                self._machines.release(_share(meta.uid or "", name))
            raise
        self._written.keep(written)
        if division == before and not promised:
            return
        gone = [name for name in before if name not in division]
        shares = []
        for name, count in sorted(division.items()):
            waits = f", which waits for {promised[name].text(name)}" if name in promised else ""
            shares.append(f"{count} in {name}{waits}")
        text = ("; " if promised else ", ").join(shares) or "no replicas"
        text += f"; none any more in {', '.join(sorted(gone))}" if gone else ""
        self._recorder.event(written, "Normal", "Divided", text)

    # ---- in members

    async def _carry_out(self, obj: Any, division: Mapping[str, int], own: Mapping[str, tuple[Copy, Object]]) -> bool:
        """Make, change and delete copies; answers whether all are as they should be."""
        await self._delete([copy for name, (copy, _) in own.items() if name not in division])
        completions = self._completions(obj, division)
        complete = True
        for name, share in sorted(division.items()):
            if not self._state.views.get(name, _GONE).reachable:
                complete = False
                continue
            labels = self._state.given_labels(name)
            desired = copy_with(
                self.kind, obj, self._state.hub, share, completions=completions.get(name), labels=labels
            )
            copied = own.get(name)
            if copied is None:
                await self._write(obj, name, desired, None)
                complete = False
            elif patch := changes_of(self.kind, desired, copied[1]):
                await self._write(obj, name, desired, patch)
                complete = False
        return complete

    def _completions(self, obj: Any, division: Mapping[str, int]) -> dict[str, int]:
        if self.kind is not BATCH_JOBS or obj.spec.completions is None:
            return {}
        if (
            len(set(division.values())) == 1
            and division
            and next(iter(division.values())) == replicas_of(self.kind, obj)
        ):
            return dict.fromkeys(division, obj.spec.completions)  # every member does all of it
        return apportion(obj.spec.completions, division, obj.metadata.uid or "")

    async def _write(self, obj: Any, cluster: str, wanted: Any, patch: Sequence[dict[str, Any]] | None) -> None:
        member = self._members(cluster)
        if member is None:
            return
        meta = wanted.metadata
        try:
            async with member.writing() as client:
                if patch is None:
                    await bring(client, self.kind, wanted)
                else:
                    await client.patch(self.kind, meta.name, patch, namespace=meta.namespace, patch_type="json")
        except Busy:
            self._context.enqueue(obj.key, _BUSY)
        except AlreadyExists:
            async with member.writing() as client:
                taken = await namesake(client, self.kind, wanted, (HUB, ORIGIN_UID))
            if taken:
                self._telling.tell(obj, "NameTaken", name_taken(cluster, self.kind))
                self._context.enqueue(obj.key, _LOOK_AGAIN)
        except (NotFound, Conflict):
            raise
        except ApiError as error:
            if not is_refusal(error):
                raise
            self._telling.tell(obj, "DispatchRefused", f"member {cluster} refuses it: {error}")
            self._context.enqueue(obj.key, _LOOK_AGAIN)

    async def _delete(self, copies: Sequence[Copy]) -> None:
        views = self._state.views
        there = [copy for copy in copies if not copy.deleting and views.get(copy.cluster, _GONE).reachable]
        await remove_copies(there, self._members, self._context.enqueue)

    # ---- on the hub

    async def _write_status(
        self,
        obj: Any,
        division: Mapping[str, int],
        own: Mapping[str, tuple[Copy, Object]],
        *,
        complete: bool,
        why: str,
        coming: Mapping[str, PromisedMachines],
    ) -> None:
        if not division and not why:
            return
        views = self._state.views
        seen = [found for name, (_, found) in own.items() if name in division and views.get(name, _GONE).reachable]
        if why_not := next(filter(None, map(disbelief, seen)), ""):
            self._telling.tell(obj, "StatusRefused", f"what a member says of it is not believed: {why_not}")
            return
        desired, now = sum(division.values()), self._clock.time()
        waits = "; ".join(f"waits for {each.text(name)}" for name, each in sorted(coming.items()))
        status = summed(self.kind, obj, seen, complete=complete, wanted=desired, why=why, waits=waits, now=now)
        self._written.keep(await write_status(self._client, self.kind, obj, status))

    def _copies(self, key: str) -> list[tuple[Copy, Object]]:
        return self._state.copies(self.kind, key)

    def _copy_changed(self, kind: Kind[Any], key: str) -> None:
        if kind is self.kind:
            self._context.enqueue(key)


def _share(uid: str, cluster: str) -> str:
    """Replicas of one workload in one member, to whom machines are promised."""
    return f"{uid}/{cluster}"


def _both(earlier: PromisedMachines, way: Way) -> Way:
    machines = Counter(earlier.machines)
    machines.update(way.machines)
    seconds, patience = max(earlier.seconds, way.seconds), max(earlier.patience, way.patience)
    return Way(way.cluster, dict(machines), seconds, earlier.price + way.price, patience)


def _is_indexed(kind: Kind[Any], obj: Any) -> bool:
    return kind is BATCH_JOBS and obj.spec.completion_mode == "Indexed"
