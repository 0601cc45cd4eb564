"""Pods on the wire as tasks, and interned pod classes: which specs share one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import copy
from functools import lru_cache
from sys import intern
from typing import Any, Self, TypeVar

import msgspec

from unisono.api.annotations import GOT, MOST_GRACE_SECONDS, NOTICE_GIVEN, ONE_OF, RUN_SECONDS
from unisono.api.base import Quantity
from unisono.api.core import Container, ContainerStatus, Pod, PodSpec, ResourceRequirements
from unisono.api.extended_devices import limit_claim
from unisono.api.keys import GROUP_NAME, PREEMPTABLE, TASK_PRIORITY, TASK_SPEC
from unisono.api.kinds import JOBS
from unisono.api.one_of import one_of, scaled, times_of
from unisono.api.pod_states import stated_run_seconds
from unisono.api.quantity import QuantityError, to_int
from unisono.api.selecting import pod_group_name
from unisono.api.times import parse_time, time_or
from unisono.cluster.gang_affinity import terms_for, terms_of_task
from unisono.cluster.podclass import UNTIED, PodClass, PodRelations, check_volumes, images_of, relevant_notes
from unisono.cluster.records import Failure, Task
from unisono.cluster.resources import ResourceRegistry
from unisono.cluster.selectors import Match, SelectorBook
from unisono.cluster.status import PREEMPTABLE_STATES, TaskStatus

# Interned pod classes: which specs share one, and which classes are still in use.
#
# A class without pods is kept for a while, for the next pod of the same spec, and then freed with the selectors that
# only it looked through: users make any number of distinct specs in the life of a scheduler.

# Objects that live as long as their owner, such as a session or a cluster's state, found by their class.

T = TypeVar("T")


class Memory:
    """Base of what is remembered of earlier cycles and cannot be found out again.

    A copy of the cluster, in which something is tried, begins with it and changes nothing of it.
    """

    __slots__ = ()

    def copy(self) -> Self:
        """One that is changed apart; in this form of those whose parts are replaced and not changed."""
        return copy(self)


class SharedObjects:
    """At most one object of each class, made when it is first asked for.

    What several plug-ins or actions use together, such as the book of who holds which device, lives here, so that it
    ends with its owner.
    """

    __slots__ = ("_by_class", "_memories", "_rest")

    def __init__(self, memories: SharedObjects | None = None, rest: SharedObjects | None = None) -> None:
        """Begin with copies of each `Memory` in ``memories``, and with all else of ``rest``, which is had in common."""
        self._by_class: dict[type[Any], Any] = {}
        self._memories, self._rest = memories, rest

    def of(self, kind: type[T], make: Callable[[], T]) -> T:
        """The object of class ``kind``; ``make`` makes it if there is none yet."""
        shared = self.find(kind)
        if shared is None:
            if self._rest is not None and not issubclass(kind, Memory):
                return self._rest.of(kind, make)
            shared = self._by_class[kind] = make()
        return shared

    def find(self, kind: type[T]) -> T | None:
        """The object of class ``kind``; None when nothing has asked for it yet."""
        shared: T | None = self._by_class.get(kind)
        if shared is None and issubclass(kind, Memory):
            before = self._memories.find(kind) if self._memories is not None else None
            shared = before.copy() if before is not None else None
            if shared is not None:
                self._by_class[kind] = shared
        elif shared is None and self._rest is not None:
            shared = self._rest.find(kind)
        return shared

    def put(self, part: object) -> None:
        """Have ``part`` in place of the object of its class."""
        self._by_class[type(part)] = part

    def clear(self) -> None:
        """Forget all objects."""
        self._by_class.clear()


KEPT = 1024
"""Classes without pods that are kept, those that lost their last pod last."""

_SLICE = 1024
"""Classes that one sweep frees at most, so that no cycle waits for it."""

_ENCODER = msgspec.msgpack.Encoder()


class PodClasses:
    """The pod classes of one cluster state.

    Ids are never used twice, so results that are kept by id never answer for another class.

    Attributes:
        all: by id, in the order in which they were made.
        kins: number of specs by ``PodClass.kin``.
        next_id: a number above all ids so far.
        freed: moves when classes were freed: results kept by id or kin may be of no use any more.
    """

    __slots__ = (
        "_by_key", "_by_kin", "_by_ties", "_idle", "_keys", "_next_kin", "_width", "all", "freed", "kins", "next_id",
        "registry", "selectors",
    )  # fmt: skip

    def __init__(self, registry: ResourceRegistry) -> None:
        self.registry = registry
        self.selectors = SelectorBook()
        self.all: dict[int, PodClass] = {}
        self.kins: dict[int, int] = {}
        self.next_id = 0
        self.freed = 0
        self._next_kin = 0
        self._width = len(registry)
        self._by_key: dict[bytes, PodClass] = {}
        self._by_kin: dict[bytes, int] = {}
        self._by_ties: dict[tuple[int, PodRelations], PodClass] = {}
        self._keys: dict[int, tuple[bytes, bytes]] = {}
        self._idle: dict[int, PodClass] = {}

    def __len__(self) -> int:
        return len(self.all)

    def intern(self, spec: PodSpec, annotations: Mapping[str, str] | None = None, namespace: str = "") -> PodClass:
        """The class of ``spec`` in a pod with ``annotations``."""
        notes = relevant_notes(annotations, namespace) if annotations else None
        key = _ENCODER.encode((_relevant(spec), notes) if notes else _relevant(spec))
        pod_class = self._by_key.get(key)
        if pod_class is None:
            pod_class = self._by_key[key] = PodClass(self.next_id, spec, self.registry, notes)
            kin = _ENCODER.encode((_constraints(spec), notes))
            pod_class.kin = self._kin(kin)
            self._keys[pod_class.id] = key, kin
            self._add(pod_class)
        return pod_class

    def _kin(self, key: bytes) -> int:
        number = self._by_kin.get(key)
        if number is None:
            number = self._by_kin[key] = self._next_kin
            self._next_kin += 1
            self.kins[number] = 0
        self.kins[number] += 1
        return number

    def refine(self, base: PodClass, ties: PodRelations) -> PodClass:
        """The class of pods of ``base`` with these ties."""
        if ties == UNTIED:
            return base
        key = (base.id, ties)
        pod_class = self._by_ties.get(key)
        if pod_class is None:
            pod_class = self._by_ties[key] = base.refined(self.next_id, ties)
            self._add(pod_class)
            self.take(base)
            self.selectors.take(ties.terms.selectors)
        return pod_class

    def _add(self, fresh: PodClass) -> None:
        self.next_id += 1
        self.all[fresh.id] = self._idle[fresh.id] = fresh

    # ---- use

    def take(self, pod_class: PodClass) -> None:
        """One more pod, or one more class of this base."""
        pod_class.uses += 1
        if pod_class.uses == 1:
            self._idle.pop(pod_class.id, None)

    def give_back(self, pod_class: PodClass) -> None:
        """The opposite of `take`."""
        pod_class.uses -= 1
        if not pod_class.uses:
            self._idle[pod_class.id] = pod_class

    def take_of(self, task: Task) -> None:
        """One more pod of all its classes."""
        for each in task.classes:
            self.take(each)

    def give_back_of(self, task: Task) -> None:
        """The opposite of `take_of`."""
        for each in task.classes:
            self.give_back(each)

    def rematch(self, task: Task, matched: Match) -> None:
        """Give a pod that is not counted the classes of those that these selectors select."""
        fresh = [self.refine(each.base, each.ties._replace(matched=matched)) for each in task.classes]
        task.pod_class, task.scaled = fresh[0], dict(zip(task.scaled, fresh[1:], strict=True))

    def reterm(self, task: Task, of_gang: Mapping[str, str] | None) -> None:
        """Give a pod that is not counted the classes of those whose PodGroup says this of where its gang stands."""
        fresh = []
        for each in task.classes:
            terms = terms_of_task(task, each.base.spec, of_gang, self.selectors)
            fresh.append(self.refine(each.base, each.ties._replace(terms=terms)))
        task.pod_class, task.scaled = fresh[0], dict(zip(task.scaled, fresh[1:], strict=True))

    def exchange(self, task: Task, instead: Mapping[int, PodClass]) -> None:
        """Give a pod other classes for some of its own, by their ids."""
        fresh = [instead.get(each.id, each) for each in task.classes]
        self.give_back_of(task)
        task.pod_class, task.scaled = fresh[0], dict(zip(task.scaled, fresh[1:], strict=True))
        self.take_of(task)

    def clear_pods(self) -> None:
        """No class has pods any more."""
        for pod_class in self.all.values():
            pod_class.uses = 0
        for pod_class in self.all.values():
            if pod_class.base is not pod_class:
                pod_class.base.uses += 1
        self._idle = {number: each for number, each in self.all.items() if not each.uses}

    def sweep(self) -> frozenset[int]:
        """Free some of the classes that have had no pods for longest; answer the ids of selectors freed with them."""
        surplus = len(self._idle) - KEPT
        if surplus <= 0:
            return frozenset()
        for number in list(self._idle)[: min(surplus, _SLICE)]:
            self._free(self._idle.pop(number))
        self.freed += 1
        return self.selectors.sweep()

    def _free(self, pod_class: PodClass) -> None:
        del self.all[pod_class.id]
        if pod_class.base is pod_class:
            key, kin = self._keys.pop(pod_class.id)
            del self._by_key[key]
            self.kins[pod_class.kin] -= 1
            if not self.kins[pod_class.kin]:
                del self.kins[pod_class.kin], self._by_kin[kin]
            return
        self._forget_ties(pod_class)
        self.give_back(pod_class.base)
        self.selectors.give_back(pod_class.terms.selectors)

    def _forget_ties(self, pod_class: PodClass) -> None:
        key = (pod_class.base.id, pod_class.ties)
        if self._by_ties.get(key) is pod_class:
            del self._by_ties[key]

    def unmatch(self, selectors: frozenset[int]) -> dict[int, PodClass]:
        """Take freed selectors out of what selects the pods of classes.

        Answers, by id, which class to use instead of those that differ from another one in nothing any more.
        """
        instead: dict[int, PodClass] = {}
        for pod_class in list(self.all.values()):
            if selectors.isdisjoint(pod_class.matched):
                continue
            self._forget_ties(pod_class)
            pod_class.matched -= selectors
            ties = pod_class.ties
            key = (pod_class.base.id, ties)
            same = pod_class.base if ties == UNTIED else self._by_ties.setdefault(key, pod_class)
            if same is not pod_class:
                instead[pod_class.id] = same
        return instead

    # ---- resources

    def widen(self) -> None:
        """Pad every vector to the registry's size."""
        size = len(self.registry)
        if size == self._width:
            return
        self._width = size
        for pod_class in self.all.values():
            pod_class.widen(size)

    def relist(self, names: Collection[str]) -> bool:
        """Lay out the requests of classes again that name one of these resources; False when no class does."""
        affected = [each for each in self.all.values() if not each.requests.keys().isdisjoint(names)]
        for pod_class in affected:
            pod_class.lay_out(self.registry)
        return bool(affected)


def _relevant(spec: PodSpec) -> tuple[Any, ...]:
    """Everything of a spec that placement may depend on, cheap to encode."""
    return (
        [(c.resources, c.ports, c.image) for c in spec.containers or ()],
        [(c.resources, c.ports, c.image, c.restart_policy) for c in spec.init_containers]
        if spec.init_containers
        else (),
        spec.resources,
        spec.overhead,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.host_network,
        [v.image.reference for v in spec.volumes if v.image is not None] if spec.volumes else (),
    )


def _constraints(spec: PodSpec) -> tuple[Any, ...]:
    """What of a spec chooses nodes by what they are, whatever the pod requests."""
    return (
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.host_network,
        images_of(spec),
        len(spec.containers or ()),
        len(spec.init_containers or ()),
    )


# From a pod on the wire to a `Task`.


_HIGHEST = 2**31 - 1
"""Priorities are int32 on the wire; annotations must not go beyond."""
_DIGITS = 9
"""Digits of a number at the end of a name that are looked at: more name no pod of a task."""

_COMPARED = tuple(name for name in Task.__slots__ if name != "told")
_NOTHING: Mapping[str, str] = {}
_NO_WORDS: Mapping[str, Mapping[str, str]] = {}
_NO_CLASSES: Mapping[int, PodClass] = {}
_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_RARE = frozenset((TASK_PRIORITY, PREEMPTABLE, RUN_SECONDS))
"""Annotations that few pods have: one question rules all of them out."""
_FINISHED = {"Succeeded": TaskStatus.SUCCEEDED, "Failed": TaskStatus.FAILED, "Unknown": TaskStatus.UNKNOWN}

_seconds = lru_cache(maxsize=4096)(parse_time)
"""Pods of one job are made within a second or two, and many jobs at once."""


def task_of(
    pod: Pod, classes: PodClasses, scheduler_names: frozenset[str], words: Mapping[str, Mapping[str, str]] = _NO_WORDS
) -> Task:
    """The record of a pod; whether its job, queue or node exist does not matter.

    ``words`` are what PodGroups say of where their gangs stand, by their keys (`unisono.api.gang_affinity`).
    """
    meta, spec, status = pod.metadata, pod.spec, pod.status
    annotations, labels = meta.annotations or _NOTHING, meta.labels or _NOTHING
    task = Task(meta.namespace or "", meta.name, meta.uid or "", class_of(pod, classes, words))
    group = pod_group_name(annotations, spec)
    task.job = f"{task.namespace}/{group}" if group else ""
    if spec.scheduling_group is not None:
        task.part = spec.scheduling_group.pod_group_name or ""
    task.role = annotations.get(TASK_SPEC) or labels.get(TASK_SPEC) or ""
    notes = _NOTHING if _RARE.isdisjoint(annotations) else annotations
    if notes:
        task.priority = _priority(notes, spec.priority)
    elif spec.priority is not None:
        task.priority = spec.priority
    task.priority_class_name = spec.priority_class_name or ""
    task.created = _seconds(meta.creation_timestamp) if meta.creation_timestamp else 0.0
    task.ordinal = _ordinal(meta.name)
    task.node = spec.node_name or ""
    # Who may take long to end holds the place as one that runs, and may be evicted.
    deleting = meta.deletion_timestamp is not None and (meta.deletion_grace_period_seconds or 0) <= MOST_GRACE_SECONDS
    task.status = _status(status.phase or "Pending", task.node, deleting=deleting)
    if spec.scheduling_gates:
        task.gated, task.gates = True, tuple(intern(gate.name) for gate in spec.scheduling_gates)
    if meta.owner_references:
        task.remade = any(owner.controller for owner in meta.owner_references)
    preemptable = notes.get(PREEMPTABLE) if PREEMPTABLE in notes else labels.get(PREEMPTABLE)
    task.preemptable = preemptable is None or preemptable in _TRUE
    task.never_preempts = spec.preemption_policy == "Never"
    task.nominated_node = status.nominated_node_name or ""
    task.owned = not spec.scheduler_name or spec.scheduler_name in scheduler_names
    if not task.owned and task.nominated_node and task.status is TaskStatus.PENDING and not task.gated:
        # Its scheduler keeps that place for it, perhaps after preempting others there; a pod that takes the place makes
        # it preempt again, without end.
        task.node, task.status = task.nominated_node, TaskStatus.BINDING
    task.labels, task.annotations = labels, annotations
    if ONE_OF in annotations and task.status is TaskStatus.PENDING:
        task.scaled = _scaled_classes(pod, classes, words)
    scheduled = status.start_time
    for condition in status.conditions or ():
        if condition.type == NOTICE_GIVEN and condition.status == "True" and task.status in PREEMPTABLE_STATES:
            task.status, task.noticed = TaskStatus.RELEASING, time_or(condition.last_transition_time, task.created)
        if condition.type != "PodScheduled":
            continue
        if condition.status == "False":
            task.told = (intern(condition.reason or ""), intern(condition.message or ""))
        elif condition.status == "True":
            scheduled = condition.last_transition_time or scheduled
    if notes or spec.active_deadline_seconds:
        task.run_seconds = stated_run_seconds(notes, spec.active_deadline_seconds)
    task.since = _seconds(scheduled) if scheduled and task.node else 0.0
    if task.status is TaskStatus.BOUND and not scheduled:
        task.named_node = task.node
    if task.status is TaskStatus.FAILED and meta.deletion_timestamp is None:
        task.failure = _failure(pod)
    return task


def _scaled_classes(pod: Pod, classes: PodClasses, words: Mapping[str, Mapping[str, str]]) -> Mapping[int, PodClass]:
    """Classes of such a pod with the devices that it would ask for on the kinds of nodes that it may take."""
    annotations = pod.metadata.annotations or _NOTHING
    said = one_of(annotations, _NOTHING)
    if said is None:
        return _NO_CLASSES
    made = times_of(annotations.get(GOT, ""))
    others = {kind.times for kind in said.kinds} - {made}
    return {
        times: class_of(msgspec.structs.replace(pod, spec=scaled(pod.spec, times, made)), classes, words)
        for times in sorted(others)
    }


def _failure(pod: Pod) -> Failure:
    status, owners = pod.status, pod.metadata.owner_references or ()
    own = (status.reason,) if status.reason else ()
    return Failure(
        reasons=frozenset((*own, *_reasons(status.container_statuses or ()))),
        init_reasons=frozenset(_reasons(status.init_container_statuses or ())),
        owners=frozenset(owner.kind for owner in owners),
        policies=any(owner.controller and owner.api_version.partition("/")[0] == JOBS.group for owner in owners),
    )


def _reasons(containers: Iterable[ContainerStatus]) -> Iterator[str]:
    """Why containers wait or have ended."""
    for container in containers:
        for state in (container.state.waiting, container.state.terminated):
            if state is not None and state.reason:
                yield state.reason


def blind_task(pod: Pod, classes: PodClasses) -> Task:
    """The record of a pod that cannot be read and has a node: it occupies that, and nothing may be done with it.

    Requests count as far as they can be read.
    """
    meta, spec = pod.metadata, pod.spec
    readable = PodSpec(
        containers=[_readable(container) for container in spec.containers or ()],
        init_containers=[_readable(container) for container in spec.init_containers or ()] or None,
    )
    task = Task(meta.namespace or "", meta.name, meta.uid or "", classes.intern(readable))
    task.node, task.owned, task.preemptable = spec.node_name or "", False, False
    task.status = TaskStatus.RUNNING if meta.deletion_timestamp is None else TaskStatus.RELEASING
    return task


def _readable(container: Container) -> Container:
    """A container with those of its resources that are quantities."""
    sides = (container.resources.requests, container.resources.limits)
    requests, limits = ({name: each for name, each in (side or {}).items() if _is_quantity(each)} for side in sides)
    return Container(
        name=container.name,
        resources=ResourceRequirements(requests=requests, limits=limits),
        restart_policy=container.restart_policy,
    )


def _is_quantity(value: Quantity) -> bool:
    try:
        to_int(value)
    except QuantityError:
        return False
    return True


def class_of(pod: Pod, classes: PodClasses, words: Mapping[str, Mapping[str, str]] = _NO_WORDS) -> PodClass:
    """The class of a pod; pods that nothing ties to others have that of their spec. ``words`` as for `task_of`."""
    meta, spec = pod.metadata, pod.spec
    selectors, namespace, labels = classes.selectors, meta.namespace or "", meta.labels or _NOTHING
    if spec.volumes:
        check_volumes(spec)
    base = classes.intern(spec, meta.annotations, namespace)
    gang = pod_group_name(meta.annotations, spec)
    of_gang = words.get(f"{namespace}/{gang}") if words else None
    whose, notes, placed = (namespace, gang, labels), meta.annotations or _NOTHING, bool(spec.node_name)
    terms = terms_for(spec, whose, notes, of_gang, selectors, placed=placed)
    if gang and selectors.by_gang:
        labels = {**labels, GROUP_NAME: gang}
    if not selectors.all and not spec.volumes and not spec.resource_claims and limit_claim(pod) is None:
        return base
    matched = selectors.matching(namespace, labels)
    ties = PodRelations(terms, matched, _volume_claims(pod), _device_claims(pod), _claim_templates(pod))
    return classes.refine(base, ties)


def _volume_claims(pod: Pod) -> tuple[str, ...]:
    """Keys of the claims that the pod's volumes name, or that are made for it (``POD-VOLUME``)."""
    claim_keys: dict[str, None] = {}
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            claim_keys[f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"] = None
        elif volume.ephemeral is not None:
            claim_keys[f"{pod.metadata.namespace}/{pod.metadata.name}-{volume.name}"] = None
    return tuple(claim_keys)


def _device_claims(pod: Pod) -> tuple[str, ...]:
    """Keys of the pod's resource claims; those made for it, by templates or limits, stand in its status."""
    made = {status.name: status for status in pod.status.resource_claim_statuses or ()}
    claim_keys: dict[str, None] = {}
    for claim in pod.spec.resource_claims or ():
        name = claim.resource_claim_name
        status = made.get(claim.name)
        if name is None and status is not None:
            name = status.resource_claim_name
            if name is None:  # the claim's driver says that none is needed
                continue
        if name is None:  # no claim can be called so
            name = f"{claim.resource_claim_template_name or ''}/"
        claim_keys[f"{pod.metadata.namespace}/{name}"] = None
    if (name := limit_claim(pod)) is not None:
        claim_keys[f"{pod.metadata.namespace}/{name}"] = None
    return tuple(claim_keys)


def _claim_templates(pod: Pod) -> tuple[tuple[str, str], ...]:
    """Keys of the resource claims that were made for the pod, each with its ResourceClaimTemplate."""
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses or ()}
    return tuple(
        (f"{pod.metadata.namespace}/{made[claim.name]}", claim.resource_claim_template_name)
        for claim in pod.spec.resource_claims or ()
        if claim.resource_claim_template_name and made.get(claim.name)
    )


def same_task(one: Task, other: Task) -> bool:
    """Whether an event changed nothing that decisions depend on; what the pod was told is not looked at."""
    return all(getattr(one, name) == getattr(other, name) for name in _COMPARED)


def _status(phase: str, node: str, *, deleting: bool) -> TaskStatus:
    if phase == "Running" and not deleting:  # most are
        return TaskStatus.RUNNING
    finished = _FINISHED.get(phase)
    if finished is not None:
        return finished
    if deleting:
        return TaskStatus.RELEASING
    return TaskStatus.BOUND if node else TaskStatus.PENDING


def _priority(annotations: Mapping[str, str], spec_priority: int | None) -> int:
    text = annotations.get(TASK_PRIORITY)
    if text is not None:
        try:
            return max(-_HIGHEST, min(_HIGHEST, int(text)))
        except ValueError:
            pass
    return 1 if spec_priority is None else spec_priority


def _ordinal(name: str) -> int:
    """Number after the last ``-`` of ``job-role-3``; -1 when the name is not of that form."""
    head, _, tail = name.rpartition("-")
    return int(tail) if len(tail) <= _DIGITS and tail.isascii() and tail.isdigit() and "-" in head else -1
