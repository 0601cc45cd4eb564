"""Grows elastic jobs into idle capacity, and shrinks them for gangs that wait, within the limits that they state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from unisono.api.annotations import DISPATCH, ELASTIC, ELASTIC_COOL_DOWN, ORIGIN_UID, SCALED_AT
from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.gang_parts import NAME, NAMESPACE, HeldRoom, decode_rooms
from unisono.api.kinds import CONFIG_MAPS, FLOATING_RESOURCES, NODES, POD_GROUPS, PODS, QUEUES, RESOURCE_QUOTAS
from unisono.api.pod_states import has_ended
from unisono.api.resources import pod_requests, resource_list
from unisono.api.selecting import pod_group_of, queue_of
from unisono.api.times import duration_or_none, parse_time, rfc3339
from unisono.controllers import owners
from unisono.controllers.elastic.decide import COOL_DOWN, Allowances, Claim, Elastic, Extra, plan
from unisono.controllers.node_scaling import decide
from unisono.controllers.node_scaling.shrink import takes_pods
from unisono.controllers.owners import index, whole_number
from unisono.controllers.recorder import Recorder
from unisono.errors import ApiError, Conflict, NotFound
from unisono.jobkinds.kind import ElasticPart, JobKind
from unisono.jobkinds.registry import ELASTIC as ELASTIC_KINDS
from unisono.kube.controller import Context, Controller

_log = structlog.get_logger(__name__)
_KEY = "elastic"
_LOOK_AGAIN = 10.0
# A part whose change the server refused is left as it is for so long (seconds): others get the room, or make it.
_REFUSED = 300.0
# Pods beyond the minimum of their group that are looked at in one look; the others have their turn in the next ones.
_MOST_EXTRA = 200
# Replicas that left for a gang that then waited for something else do so again after a pause (seconds) that doubles.
_PAUSE, _LONGEST_PAUSE = 60.0, 3600.0
_OWNER_INDEX = "pods-of-owner"


@dataclass(frozen=True, slots=True)
class _Found:
    """An elastic part of an object as it stands; ``stays`` are its pods that are not going."""

    family: JobKind
    obj: Object
    part: ElasticPart
    stays: Sequence[Pod]
    elastic: Elastic


class ElasticController(Controller):
    """Looks at all elastic jobs, gangs and nodes together, every ten seconds while there are such jobs."""

    name = "elastic-controller"
    workers = 1

    def __init__(self, recorder: Recorder) -> None:
        """``recorder`` records events on the jobs."""
        self._recorder = recorder
        self._refused: dict[str, float] = {}
        self._helped = decide.Helped(_PAUSE, _LONGEST_PAUSE)

    def setup(self, context: Context) -> None:
        """Watch jobs that may be elastic, and queues that make theirs so; gangs, pods and nodes are looked up."""
        self._objects = [
            (family, context.watch(family.kind, _of_elastic, optional=family.kind.group != "batch.volcano.sh"))
            for family in ELASTIC_KINDS
        ]
        self._queues = context.watch(QUEUES, _of_elastic)
        self._groups = context.informer(POD_GROUPS)
        self._pods = context.informer(PODS)
        self._nodes = context.informer(NODES)
        self._quotas = context.informer(RESOURCE_QUOTAS)
        self._floating = context.informers.of(FLOATING_RESOURCES, optional=True)
        index(self._pods, decide.POD_INDEX, decide.groups_of)
        index(self._pods, _OWNER_INDEX, owners.controller_keys)

    async def reconcile(self, key: str) -> float | None:
        """One look at everything."""
        now = self._clock.time()
        queues = {each.metadata.name: each.metadata.annotations or {} for each in self._queues.items()}
        if not any(notes.get(ELASTIC) == "true" for notes in queues.values()) and not any(
            _of_elastic(obj) for _, informer in self._objects for obj in informer.items()
        ):
            return None
        parts = [each async for each in self._found(queues, self._allowances())]
        self._refused = {name: at for name, at in self._refused.items() if now - at < _REFUSED}
        jobs = {each.elastic.key: each.elastic for each in parts if each.elastic.key not in self._refused}
        gangs = self._waiting(now)
        if jobs:
            extras = self._beyond_minimum(parts, now)
            rooms = self._rooms(parts)
            self._keep_held(rooms, await self._held(now), {key for key, _ in gangs})
            answer = plan(list(jobs.values()), gangs, rooms, now, extras, self._helped.resting(self._cause, now))
            self._helped.add(answer.helped, now)
            await self._carry_out(parts, jobs, answer.replicas, answer.reasons, now)
        return _LOOK_AGAIN

    def _allowances(self) -> Allowances:
        return Allowances(
            self._queues.items(),
            self._quotas.items(),
            self._groups.items(),
            lambda group: self._pods.by_index(decide.POD_INDEX, group.key),
            lambda namespace: (pod for pod in self._pods.items() if pod.metadata.namespace == namespace),
            self._floating.items(),
        )

    async def _found(self, queues: Mapping[str, Mapping[str, str]], allowances: Allowances) -> Any:
        """Elastic parts of jobs that run; a job that cannot be read is told and left out."""
        for family, informer in self._objects:
            for obj in informer.items():
                if obj.metadata.deletion_timestamp:
                    continue
                try:
                    mine = self._pods.by_index(_OWNER_INDEX, owners.family(obj))
                    if not mine or not _wishes_it(obj, queues.get(self._queue_of(mine[0]), {})):
                        continue
                    parts = list(self._parts(family, obj, mine, allowances))
                except Exception as error:
                    await self._context.tell(family.kind, obj, error)
                    continue
                await self._context.tell(family.kind, obj, None)
                for each in parts:
                    yield each

    def _queue_of(self, pod: Pod) -> str:
        group = self._groups.get(pod_group_of(pod))
        return queue_of(group) if group is not None else ""

    def _parts(self, family: JobKind, obj: Object, pods: Sequence[Pod], allowances: Allowances) -> Iterator[_Found]:
        for part in family.elastic(obj) if family.elastic is not None else ():
            key, value = part.label
            mine = [pod for pod in pods if (pod.metadata.labels or {}).get(key) == value]
            if any(has_ended(pod) for pod in mine):
                continue  # what has begun to end is not worth a change
            stays = [pod for pod in mine if not pod.metadata.deletion_timestamp]
            stays.sort(key=_number)
            if len(stays) > part.replicas * part.pods:
                stays = stays[: part.replicas * part.pods]  # the others are about to go
            group = self._groups.get(pod_group_of(stays[0])) if stays else None
            claims = allowances.claims(group, stays[0], part.pods) if group is not None else ()
            yield _Found(family, obj, part, stays, _elastic(family, obj, part, stays, claims))

    def _waiting(self, now: float) -> list[tuple[str, list[decide.Demand]]]:
        """What each gang that waits for nodes lacks to its minimum; who waits longest first."""
        waiting = []
        for group in self._groups.items():
            created = group.metadata.creation_timestamp
            if (
                decide.verdict_of(group).cause not in decide.CAUSES
                or created is None
                or now - parse_time(created) < decide.PATIENCE
            ):
                continue
            pods = sorted(self._pods.by_index(decide.POD_INDEX, group.key), key=lambda pod: pod.metadata.name)
            pending = [pod for pod in pods if decide.is_pending(pod)]
            placed = sum(1 for pod in pods if pod.spec.node_name and not has_ended(pod))
            lacks = max(0, (group.spec.min_member or 0) - placed)
            demand = [decide.demand_of(pod.spec) for pod in pending[:lacks]] if pods else decide.promised(group)
            if demand:
                waiting.append((created, group.key, demand))
        return [(key, demand) for _, key, demand in sorted(waiting, key=lambda each: each[:2])]

    def _cause(self, key: str) -> str:
        """Why a PodGroup, or a pod, waits; empty where it does not."""
        pod = self._pods.get(key)
        group = self._groups.get(pod_group_of(pod) if pod is not None and decide.is_pending(pod) else key)
        return decide.verdict_of(group).cause if group is not None else ""

    def _beyond_minimum(self, found: Sequence[_Found], now: float) -> list[Extra]:
        """Pods that wait for nodes while their group has its minimum, such as replicas of a server.

        The highest priority goes first, then who waits longest. Replicas of elastic jobs are not among them.
        """
        elastic = {pod.key for each in found for pod in each.stays}
        waiting = []
        for group in self._groups.items():
            if decide.verdict_of(group).cause not in decide.CAUSES:
                continue
            pods = self._pods.by_index(decide.POD_INDEX, group.key)
            if sum(1 for pod in pods if pod.spec.node_name and not has_ended(pod)) < (group.spec.min_member or 0):
                continue
            for pod in pods:
                created = pod.metadata.creation_timestamp
                if created is None or now - parse_time(created) < decide.PATIENCE or pod.metadata.deletion_timestamp:
                    continue
                if decide.is_pending(pod) and not pod.spec.scheduling_gates and pod.key not in elastic:
                    extra = Extra(pod.key, group.key, decide.demand_of(pod.spec), pod.spec.priority or 0)
                    waiting.append((-extra.priority, created, pod.key, extra))
        return [each[-1] for each in sorted(waiting, key=lambda each: each[:3])[:_MOST_EXTRA]]

    def _rooms(self, found: Sequence[_Found]) -> list[decide.Room]:
        """What nodes have free when everything that goes has gone."""
        staying = {pod.key for each in found for pod in each.stays}
        elastic = {(owners.family(each.obj), each.part.label) for each in found}
        rooms = {
            node.metadata.name: _room(node.metadata.name, node) for node in self._nodes.items() if takes_pods(node)
        }
        for pod in self._pods.items():
            room = rooms.get(pod.spec.node_name or "")
            if room is None or has_ended(pod) or pod.metadata.deletion_timestamp:
                continue
            if pod.key not in staying and _is_of(pod, elastic):
                continue
            for name, amount in (pod_requests(pod.spec) | {"pods": 1}).items():
                room.free[name] = room.free.get(name, 0) - amount
        return list(rooms.values())

    async def _held(self, now: float) -> Mapping[str, HeldRoom]:
        """Room that a hub holds here for parts of gangs, by key."""
        try:
            config_map = await self._client.get(CONFIG_MAPS, NAME, NAMESPACE)
        except NotFound:
            return {}
        return {key: room for key, room in decode_rooms(config_map.data or {}).items() if room.until > now}

    def _keep_held(self, rooms: Sequence[decide.Room], held: Mapping[str, HeldRoom], waiting: Collection[str]) -> None:
        """Take from nodes what is held on them for pods that have no node yet; gangs that wait ask for theirs."""
        by_name = {room.pool.name: room for room in rooms}
        for key, part in held.items():
            for name, (node, at) in part.pods.items():
                pod, room = self._pods.get(f"{part.namespace}/{name}"), by_name.get(node)
                there = pod is not None and _part_of(pod) == key
                if room is None or (there and pod is not None and (pod.spec.node_name or pod_group_of(pod) in waiting)):
                    continue
                for resource, amount in (resource_list(part.requests[at]) | {"pods": 1}).items():
                    room.free[resource] = room.free.get(resource, 0) - amount

    async def _carry_out(
        self,
        found: Sequence[_Found],
        jobs: Mapping[str, Elastic],
        wanted: Mapping[str, int],
        reasons: Mapping[str, str],
        now: float,
    ) -> None:
        by_object: dict[str, list[_Found]] = {}
        for each in found:
            if each.elastic.key in wanted:
                by_object.setdefault(f"{each.family.kind.resource}/{each.obj.key}", []).append(each)
        for parts in by_object.values():
            family, obj = parts[0].family, parts[0].obj
            numbers = {each.part.name: wanted[each.elastic.key] for each in parts}
            assert family.grown is not None
            patch = family.grown(obj, numbers)
            meta = patch.setdefault("metadata", {})
            meta["resourceVersion"] = obj.metadata.resource_version
            meta["annotations"] = {**meta.get("annotations", {}), SCALED_AT: rfc3339(now)}
            try:
                await self._client.patch(family.kind, obj.metadata.name, patch, namespace=obj.metadata.namespace)
            except (NotFound, Conflict):
                continue  # what changed is on its way here, and is looked at then
            except ApiError as error:
                self._recorder.event(obj, "Warning", "FailedElasticScale", str(error))
                self._refused |= {each.elastic.key: now for each in parts}
                continue
            for each in parts:
                key = each.elastic.key
                before, after = jobs[key].replicas, wanted[key]
                reason = "ElasticGrown" if after > before else "ElasticShrunk"
                what = f"{each.part.name} replicas" if each.part.name else "replicas"
                self._recorder.event(obj, "Normal", reason, f"{what}: {before} -> {after}, {reasons[key]}")
                _log.info("elastic.scaled", job=key, before=before, after=after, why=reasons[key])


def _part_of(pod: Pod) -> str:
    """Key of the held room that is held for a pod, if any is."""
    labels = pod.metadata.labels or {}
    return f"{labels.get(ORIGIN_UID, '')}.{labels.get(DISPATCH, '')}"


def _of_elastic(obj: Object) -> tuple[str, ...]:
    return (_KEY,) if (obj.metadata.annotations or {}).get(ELASTIC) == "true" else ()


def _wishes_it(obj: Object, queue: Mapping[str, str]) -> bool:
    """Whether the object, or else its queue by its annotations, asks to be grown and shrunk."""
    own = (obj.metadata.annotations or {}).get(ELASTIC)
    return (queue.get(ELASTIC) if own is None else own) == "true"


def _cool_down(obj: Object) -> float:
    """Seconds from a change to the next growth; a text that is no duration counts as absent."""
    seconds = duration_or_none((obj.metadata.annotations or {}).get(ELASTIC_COOL_DOWN))
    return COOL_DOWN if seconds is None else max(0.0, seconds)


def _places_of(part: ElasticPart, pods: Sequence[Pod]) -> tuple[tuple[str, ...], ...]:
    """Nodes of the part's replicas as they come, from the pods of the part that stay, in the order of their index.

    Replicas of several pods are complete or count as without a place.
    """
    nodes = [pod.spec.node_name or "" for pod in pods]
    groups = [nodes[at : at + part.pods] for at in range(0, len(nodes), part.pods)]
    return tuple(tuple(group) if all(group) and len(group) == part.pods else () for group in groups)


def _elastic(
    family: JobKind, obj: Object, part: ElasticPart, stays: Sequence[Pod], claims: tuple[Claim, ...]
) -> Elastic:
    notes = obj.metadata.annotations or {}
    return Elastic(
        key="/".join(name for name in (family.kind.kind, obj.key, part.name) if name),
        replicas=part.replicas,
        least=part.least,
        most=part.most,
        demand=decide.demand_of(part.template, part.pods),
        places=_places_of(part, stays),
        changed=parse_time(notes[SCALED_AT]) if SCALED_AT in notes else float("-inf"),
        cool_down=_cool_down(obj),
        priority=max((pod.spec.priority or 0 for pod in stays), default=0),
        claims=claims,
    )


def _number(pod: Pod) -> tuple[int, str]:
    """The pod's number in its task: names end with it."""
    return whole_number(pod.metadata.name.rpartition("-")[2]) or 0, pod.metadata.name


def _room(name: str, node: Any) -> decide.Room:
    offers = resource_list(node.status.allocatable)
    return decide.Room(
        decide.Pool(name, 1, 0, 1, offers, node.metadata.labels or {}, tuple(node.spec.taints or ())), dict(offers)
    )


def _is_of(pod: Pod, elastic: set[tuple[str, tuple[str, str]]]) -> bool:
    labels = pod.metadata.labels or {}
    return any((key, label) in elastic for key in owners.controller_keys(pod) for label in labels.items())
