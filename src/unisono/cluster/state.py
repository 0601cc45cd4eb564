"""The cluster as arrays and records, fed by watch events.

Events may come in any order, twice, or for things unknown: the state depends only on the last event per object, as if
it had been built from lists.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from typing import Any

from unisono.api.base import Object
from unisono.api.core import Node, Pod, PodDisruptionBudget, PriorityClass, ResourceQuota
from unisono.api.gang_affinity import words_of_gang
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kind import Kind
from unisono.api.kind_families import WORKLOAD_POD_GROUPS
from unisono.api.kinds import PODS
from unisono.api.node_usage import NodeUsage
from unisono.api.pod_states import has_ended
from unisono.cluster.affinity_index import AffinityIndex, rematched
from unisono.cluster.catalogue import Catalogue
from unisono.cluster.devices import DeviceCount, DeviceCounts
from unisono.cluster.floating import FloatingBook
from unisono.cluster.hypertree import HyperNodeBook
from unisono.cluster.interning import PodClasses, SharedObjects, blind_task, same_task, task_of
from unisono.cluster.jobs import JobBook
from unisono.cluster.limits import Budget, LimitBook, Quota, budget_of, closed_budget, closed_quota, quota_of
from unisono.cluster.nodes import NodeFacts, NodeTable
from unisono.cluster.podclass import PodClass
from unisono.cluster.promises import AssumedBind, Promise, Promises, SelfPlaced, holds, set_aside, take_back
from unisono.cluster.recent import EvictionLog, PastEviction, RunTimes, Setback
from unisono.cluster.records import NodePods, Task
from unisono.cluster.rejections import RejectionBook
from unisono.cluster.resources import ResourceRegistry
from unisono.cluster.selectors import Match
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import COMPLETED_STATES, ON_NODE_STATES, PREEMPTABLE_STATES, TaskStatus
from unisono.cluster.waiting_jobs import ForeignPods
from unisono.errors import UnisonoError

_Handler = tuple[Callable[[Any], bool], Callable[[str], bool], Callable[[], list[str]]]
"""How to put an object in, how to remove one by key, and the keys of those that are there."""


class ClusterState:
    """State of one cluster.

    Args:
        scheduler_names: pods that name one of these (or none) are ours; others only occupy their node.
        default_queue: queue of PodGroups that name none.

    Attributes:
        version: moves whenever something changed that a decision may depend on.
        rejected: objects that could not be taken in, by kind and key. They count as absent, and a pod with a node still
            occupies it.
    """

    def __init__(self, scheduler_names: Iterable[str] = ("volcano", "unisono"), default_queue: str = "default") -> None:
        self.version = 0
        self.scheduler_names = frozenset(scheduler_names)
        self.registry = ResourceRegistry()
        self.classes = PodClasses(self.registry)
        self.nodes = NodeTable(self.registry)
        self.book = JobBook(self.registry, default_queue, self.is_foreign)
        self.hyper_nodes = HyperNodeBook()
        self.floating = FloatingBook(self.registry)
        self.tasks: dict[str, Task] = {}
        self.tasks_on: dict[str, NodePods] = {}
        self.port_holders: dict[str, dict[str, PodClass]] = {}
        self.priorities: dict[str, PriorityClass] = {}
        self.affinity_index = AffinityIndex(self.classes.selectors)
        self.quotas: LimitBook[Quota] = LimitBook()
        self.budgets: LimitBook[Budget] = LimitBook()
        self.node_usage: dict[str, NodeUsage] = {}
        self.evictions = EvictionLog()
        self.run_times = RunTimes()
        self.setbacks: Mapping[str, Setback] = {}
        self.catalogue = Catalogue()
        self.device_counts = DeviceCounts()
        self.memo = SharedObjects()
        self.rejected = RejectionBook()
        self.promises = Promises()
        self._words: dict[str, Mapping[str, str]] = {}
        self._foreign = ForeignPods(self._look_again_at)
        self._self_placed = SelfPlaced()
        self._assumed: dict[str, AssumedBind] = {}
        self._released: dict[str, tuple[str, TaskStatus]] = {}
        self.noticed: dict[str, Task] = {}
        self._handlers: dict[str, _Handler] = {
            "Pod": (
                self._put_pod,
                self._remove_pod,
                lambda: list({*self.tasks, *self._foreign.pods()} - self.promises.stands),
            ),
            "Node": (self._put_node, self._remove_node, self.nodes.wanted),
            "PodGroup": (
                self._put_group,
                self._remove_group,
                lambda: [key for key, job in self.book.jobs.items() if job.known and not job.gone],
            ),
            "Queue": (
                self.book.put_queue,
                self.book.remove_queue,
                lambda: [name for name, queue in self.book.queues.items() if queue.known],
            ),
            "ResourceQuota": (lambda obj: self.quotas.put(quota_of(obj)), self.quotas.remove, self.quotas.keys),
            "PodDisruptionBudget": (
                lambda obj: self.budgets.put(budget_of(obj)),
                self.budgets.remove,
                self.budgets.keys,
            ),
            "HyperNode": (self.hyper_nodes.put, self.hyper_nodes.remove, self.hyper_nodes.names),
            "FloatingResource": (self.floating.put, self.floating.remove, self.floating.names),
            "PriorityClass": (self._put_priority, self._remove_priority, lambda: list(self.priorities)),
            "Namespace": (
                lambda obj: self._label_namespace(obj.metadata.name, obj.metadata.labels or {}),
                lambda name: self._label_namespace(name, None),
                lambda: list(self.classes.selectors.namespace_labels),
            ),
        }
        for kind, shelf in self.catalogue.shelves().items():
            self._handlers[kind] = (shelf.put, shelf.remove, shelf.known)

    # ---- events

    def apply(self, event_type: str, kind: Kind[Any], obj: Object) -> None:
        """Take in one watch event (ADDED, MODIFIED or DELETED); kinds that scheduling does not read are ignored."""
        handler = self._handler_of(kind)
        if handler is None or event_type == "BOOKMARK":
            return
        put, remove, _ = handler
        if event_type == "DELETED":
            self.rejected.forget(kind, obj.key)
            self.version += remove(obj.key)
        else:
            self._take(kind, obj, put, remove)

    def replace(self, kind: Kind[Any], objects: Iterable[Object]) -> None:
        """Take in a complete list: what it lacks is gone."""
        handler = self._handler_of(kind)
        if handler is None:
            return
        put, remove, keys = handler
        present = {obj.key: obj for obj in objects}
        for key in self.rejected.keys(kind) - present.keys():
            self.rejected.forget(kind, key)
        for key in keys():
            if key not in present:
                self.version += remove(key)
        for obj in present.values():
            self._take(kind, obj, put, remove)

    def reject(self, kind: Kind[Any], obj: Object, why: str) -> None:
        """Set an object aside that could not be decoded; ``obj`` has what could be."""
        handler = self._handler_of(kind)
        if handler is not None:
            self._set_aside(kind, obj, why, handler[1])

    def _handler_of(self, kind: Kind[Any]) -> _Handler | None:
        """Kubernetes' own PodGroups are not read: the controllers make one of ours for each."""
        return (
            None
            if kind.group == WORKLOAD_POD_GROUPS.group and kind.kind == WORKLOAD_POD_GROUPS.kind
            else (self._handlers.get(kind.kind))
        )

    def _take(self, kind: Kind[Any], obj: Object, put: Callable[[Any], bool], remove: Callable[[str], bool]) -> None:
        """One object that cannot be taken in counts as absent, and does not stop others."""
        try:
            self.version += put(obj)
        except Exception as error:
            expected = isinstance(error, (UnisonoError, ValueError))
            self._set_aside(kind, obj, str(error) if expected else f"{type(error).__name__}: {error}", remove)
            return
        if self.rejected.any:
            self.rejected.forget(kind, obj.key)

    def _set_aside(self, kind: Kind[Any], obj: Object, why: str, remove: Callable[[str], bool]) -> None:
        """Take out what is known of an object; its pods, or the pod itself, go on to occupy their nodes."""
        self.version += self.rejected.note(kind, obj, why)
        try:
            self.version += remove(obj.key)
            if isinstance(obj, Pod):
                self.version += self._occupy_blindly(obj)
            elif isinstance(obj, PodGroup):
                self.version += self.book.set_aside(obj)
            elif isinstance(obj, PodDisruptionBudget):
                self.version += self.budgets.put(closed_budget(obj))
            elif isinstance(obj, ResourceQuota):
                self.version += self.quotas.put(closed_quota(obj))
        except Exception:
            # A change has stopped halfway: everything that is derived from pods is counted again.
            self._recount(obj.key if isinstance(obj, Pod) else "")
            self.version += 1

    def _occupy_blindly(self, pod: Pod) -> bool:
        """A pod that cannot be read is on its node all the same, with as much of its requests as can be read."""
        if not pod.spec.node_name or has_ended(pod):
            return False
        self._put_in(blind_task(pod, self.classes))
        return True

    def _recount(self, without: str = "") -> None:
        """Rebuild everything that is derived from pods; ``without`` is the key of the one that is to blame."""
        tasks = [task for key, task in self.tasks.items() if key != without]
        for derived in (self.tasks, self.tasks_on, self.port_holders, self.noticed):
            derived.clear()
        for key in (self._assumed.keys() | self._released.keys()) & {without}:
            self._assumed.pop(key, None)
            self._released.pop(key, None)
        self.nodes.clear_pods()
        self._self_placed.clear()
        self.classes.clear_pods()
        self.affinity_index.clear_pods()
        self.book.clear_tasks()
        for task in tasks:
            self._put_in(task)

    # ---- pods

    def _put_pod(self, pod: Pod) -> bool:
        task = task_of(pod, self.classes, self.scheduler_names, self._words)
        if task.pod_class.device_resources:
            self.device_counts.ask(task.pod_class.device_resources)
        self._foreign.note(task)
        if not task.owned and not task.node:
            return self._leave_out(task.key)
        if task.status is TaskStatus.SUCCEEDED:
            self.run_times.learn(pod, task)
        if self._assumed:
            self._keep_assumption(task)
        if self._released:
            self._keep_release(task)
        old = self.tasks.get(task.key)
        if old is not None and old.named_node and old.named_node == task.named_node and not holds(old):
            set_aside(task)  # until it is found out again
        if old is not None and same_task(old, task):
            old.told = task.told
            return False
        try:
            if old is not None:
                self._take_out(old)
            self._put_in(task)
        except Exception:
            self._recount(task.key)  # no count may say half of a pod
            raise
        return True

    def _keep_assumption(self, task: Task) -> None:
        """A decided bind holds until an event shows a node, the end of the pod, or another pod of that name."""
        assumed = self._assumed.get(task.key)
        if assumed is None:
            return
        if task.uid == assumed.uid and task.status is TaskStatus.PENDING:
            assumed.before = task.annotations
            task.status, task.node = TaskStatus.BINDING, assumed.node
            task.annotations = {**task.annotations, **assumed.annotations}
        else:
            del self._assumed[task.key]

    def _remove_pod(self, key: str) -> bool:
        self._foreign.forget(key)
        return self._leave_out(key)

    def _look_again_at(self, job: str) -> None:
        self.book.touch(job)
        self.version += 1

    def _leave_out(self, key: str) -> bool:
        self._assumed.pop(key, None)
        self._released.pop(key, None)
        old = self.tasks.get(key)
        if old is None:
            return False
        self._take_out(old)
        return True

    def _put_in(self, task: Task) -> None:
        self.tasks[task.key] = task
        self.classes.take_of(task)
        if task.pod_class.tolerations and task.queued and task.status not in COMPLETED_STATES:
            self.nodes.tolerance.add(task.pod_class)
        if task.named_node:
            self._self_placed.add(task)
        if task.node and task.status in ON_NODE_STATES:
            self._self_placed.touch(task.node)
            held = self.tasks_on.get(task.node)
            if held is None:
                held = self.tasks_on[task.node] = NodePods()
            held[task.key] = task
            if held.derived:
                held.derived.clear()
            if task.pod_class.host_ports:
                self.port_holders.setdefault(task.node, {})[task.key] = task.pod_class
            self._occupy(task, 1)
        if task.noticed:
            self.noticed[task.key] = task
        self.affinity_index.add(task)
        self.book.add_task(task)

    def _take_out(self, task: Task) -> None:
        del self.tasks[task.key]
        self.classes.give_back_of(task)
        if task.pod_class.tolerations and task.queued and task.status not in COMPLETED_STATES:
            self.nodes.tolerance.remove(task.pod_class)
        if task.named_node:
            self._self_placed.remove(task)
        if task.node and task.status in ON_NODE_STATES:
            self._self_placed.touch(task.node)
            self.tasks_on[task.node].derived.clear()
            _drop(self.tasks_on, task.node, task.key)
            if task.pod_class.host_ports:
                _drop(self.port_holders, task.node, task.key)
            self._occupy(task, -1)
        if task.noticed:
            del self.noticed[task.key]
        self.affinity_index.remove(task)
        self.book.remove_task(task)

    def _put_group(self, group: PodGroup) -> bool:
        key = group.key
        before, words = self._annotations_of(key), words_of_gang(group.metadata.annotations or {})
        changed = self.book.put_group(group)
        if self._annotations_of(key) != before:
            self._look_again_at_pods_of(key, words)
        return changed

    def _remove_group(self, key: str) -> bool:
        self._look_again_at_pods_of(key, {})
        return self.book.remove_group(key)

    def _annotations_of(self, key: str) -> Mapping[str, str]:
        job = self.book.jobs.get(key)
        return job.annotations if job is not None else {}

    def _look_again_at_pods_of(self, key: str, words: Mapping[str, str]) -> None:
        """What pods say of themselves together with the annotations of their PodGroup may have changed.

        ``words`` are those about where its gang stands.
        """
        job, before = self.book.jobs.get(key), self._words.pop(key, {})
        if words:
            self._words[key] = words
        for task in list(job.tasks.values()) if job is not None else ():
            held = self.tasks_on.get(task.node)
            if held is not None:
                held.derived.clear()
            if words != before:
                self._change(task, lambda task: self.classes.reterm(task, words))

    def _occupy(self, task: Task, sign: int) -> None:
        releasing = task.status is TaskStatus.RELEASING
        self.nodes.occupy(task.node, task.pod_class, sign, releasing=releasing, outside=not task.queued)

    # ---- binds on their way

    def assume(self, pod_key: str, node: str, annotations: Mapping[str, str] | None = None) -> None:
        """A bind was decided: the task holds its resources (state Binding) until an event or `forget` says otherwise.

        ``annotations`` are what the bind writes on the pod; they count at once.

        Unknown pods and pods that are not pending are left alone.
        """
        task = self.tasks.get(pod_key)
        if task is None or task.status is not TaskStatus.PENDING:
            return
        assumed = self._assumed[pod_key] = AssumedBind(task.uid, node, annotations or {}, task.annotations)
        self._restate(task, TaskStatus.BINDING, node, {**task.annotations, **assumed.annotations})

    def forget(self, pod_key: str) -> None:
        """The bind failed: the task is pending again. Nothing happens when the bind was confirmed meanwhile."""
        assumed = self._assumed.pop(pod_key, None)
        task = self.tasks.get(pod_key)
        if assumed is not None and task is not None and task.status is TaskStatus.BINDING:
            self._restate(task, TaskStatus.PENDING, "", assumed.before)

    # ---- evictions on their way

    def release(self, pod_key: str, at: float | None = None) -> None:
        """An eviction was decided: the task counts as being released until an event or `keep` says otherwise.

        ``at`` is when (seconds since the epoch); without it limits on evictions do not count this one.

        Unknown pods and pods that hold no place are left alone; a failed one counts as an eviction, and has nothing
        to release.
        """
        task = self.tasks.get(pod_key)
        if task is None or task.status not in (*PREEMPTABLE_STATES, TaskStatus.FAILED):
            return
        if at is not None:
            job = self.book.jobs.get(task.job)
            self.evictions.note(PastEviction(at, pod_key, task.uid, task.job, job.queue if job is not None else ""))
        if task.status is TaskStatus.FAILED:
            return
        self._released[pod_key] = (task.uid, task.status)
        self._restate(task, TaskStatus.RELEASING, task.node, task.annotations)

    def keep(self, pod_key: str) -> None:
        """The eviction failed: the task holds its place again."""
        task = self.tasks.get(pod_key)
        failed = task.uid if task is not None and task.status is TaskStatus.FAILED else ""
        uid, status = self._released.pop(pod_key, (failed, TaskStatus.UNKNOWN))
        self.evictions.strike(uid)
        if task is not None and task.uid == uid and task.status is TaskStatus.RELEASING:
            self._restate(task, status, task.node, task.annotations)

    def _keep_release(self, task: Task) -> None:
        """A decided eviction holds until an event shows the deletion, the end of the pod, or another of that name."""
        released = self._released.get(task.key)
        if released is None:
            return
        if task.uid == released[0] and task.status in PREEMPTABLE_STATES:
            self._released[task.key] = (task.uid, task.status)
            task.status = TaskStatus.RELEASING
        else:
            del self._released[task.key]

    def _restate(self, task: Task, status: TaskStatus, node: str, annotations: Mapping[str, str]) -> None:
        self._take_out(task)
        task.status, task.node, task.annotations = status, node, annotations
        self._put_in(task)
        self.version += 1

    # ---- promises

    def promise(self, key: str, owner: str, until: float, pods: Iterable[Pod]) -> None:
        """Keep room for an owner (`unisono.cluster.promises.owner_of`): ``pods`` stand on the nodes that they name.

        They are no objects, so no list of pods takes them away, and `withdraw` does.
        """
        self.withdraw(key)
        stands = list(pods)
        self.promises.put(key, Promise(owner, until, {pod.key for pod in stands}))
        for pod in stands:
            self._take(PODS, pod, self._put_pod, self._remove_pod)

    def withdraw(self, key: str, pods: Collection[str] | None = None) -> None:
        """End a promise, or as much of it as stands for these pods (by key)."""
        for stand in self.promises.end(key, pods):
            self.rejected.forget(PODS, stand)
            self.version += self._remove_pod(stand)

    # ---- nodes and priority classes

    def _put_node(self, node: Node) -> bool:
        self._self_placed.touch(node.metadata.name)
        return self.nodes.put(NodeFacts(node, self.device_counts.of(node.metadata.name)))

    def _offer(self, name: str, counts: DeviceCount) -> None:
        """Devices of a node's slices have come or gone, or claims for them."""
        facts = self.nodes.facts_of(name)
        if facts is not None:
            self._self_placed.touch(name)
            self.nodes.put(facts.with_devices(counts))

    def _remove_node(self, name: str) -> bool:
        self._self_placed.touch(name)
        return self.nodes.remove(name)

    def _judge_self_placed(self) -> None:
        """Set aside the pods that the nodes which they name are going to refuse, and take back those that now fit."""
        for task in self._self_placed.changes(self.nodes, self.tasks_on):
            self._change(task, set_aside if holds(task) else take_back)

    def _put_priority(self, obj: PriorityClass) -> bool:
        old = self.priorities.get(obj.metadata.name)
        self.priorities[obj.metadata.name] = obj
        return old is None or (old.value, old.global_default) != (obj.value, obj.global_default)

    def _remove_priority(self, name: str) -> bool:
        return self.priorities.pop(name, None) is not None

    def _label_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Note a namespace's labels; pods there are looked at again when selectors ask for them."""
        if not self.classes.selectors.label_namespace(name, labels):
            return False
        for task in [task for task in self.tasks.values() if task.namespace == name]:
            self._reclass(task)
        return True

    def set_back(self, setbacks: Mapping[str, Setback]) -> None:
        """Take in which jobs' binds failed lately; those that wait for their next attempt ask for nothing meanwhile."""
        self.setbacks = dict(setbacks)
        self.version += self.book.hold({key for key, setback in setbacks.items() if setback.waiting})

    def report_usage(self, usage: Mapping[str, NodeUsage]) -> None:
        """Take in the latest load of all nodes; it counts from the next cycle on and starts none by itself."""
        self.node_usage = dict(usage)

    # ---- views

    def is_foreign(self, job: str) -> bool:
        """Whether all pods of a job name another scheduler, which then tells of it; False for a job without pods."""
        entry = self.book.jobs.get(job)
        return self._foreign.have(job) and not (entry and any(task.owned for task in entry.tasks.values()))

    def settle_nodes(self) -> None:
        """Let nodes that have come or gone count in the table, and new names of resources have rows of their own."""
        for name, counts in self.device_counts.settle(self.catalogue).items():
            self._offer(name, counts)
        names = self.registry.take_listed()
        if names:
            self.book.relist(names)
            if self.classes.relist(names):
                self._recount()
        self.nodes.settle(self._move_in)

    def snapshot(self) -> Snapshot:
        """The state as it is now, in constant time after quiet periods; valid until the next `apply` or `assume`."""
        self.settle_nodes()
        self._judge_self_placed()
        self.affinity_index.settle(self.tasks, self._match)
        self._sweep()
        self.classes.widen()
        self.book.promise(self.promises.amounts(self.tasks, len(self.registry)))
        self.book.refresh()
        if self.registry.floating:
            self.nodes.float(self.floating.by_row(self.book.licenses.held()))
        values = {name: obj.value or 0 for name, obj in self.priorities.items()}
        defaults = [obj.value or 0 for obj in self.priorities.values() if obj.global_default]
        return Snapshot(
            version=self.version,
            registry=self.registry,
            nodes=self.nodes,
            classes=self.classes,
            next_class=self.classes.next_id,
            tasks=self.tasks,
            tasks_on=self.tasks_on,
            jobs=self.book.jobs,
            active=self.book.active,
            queues=self.book.queues,
            priorities=values,
            default_priority=max(defaults, default=0),
            port_holders=self.port_holders,
            affinity_index=self.affinity_index,
            catalogue=self.catalogue,
            calendar=self.book.calendar,
            memo=self.memo,
            hyper_nodes=self.hyper_nodes.tree(self.nodes),
            quotas=self.quotas.by_namespace,
            budgets=self.budgets.by_namespace,
            node_usage=self.node_usage,
            evictions=self.evictions,
            run_times=self.run_times,
            setbacks=self.setbacks,
            promises=self.promises.by_key,
            waiting=self.book.waiting,
            shapes=self.book.shapes,
            licensed=self.book.licenses.jobs,
        )

    def _sweep(self) -> None:
        """Free what only pods needed that are gone."""
        freed = self.classes.sweep()
        if not freed:
            return
        self.affinity_index.forget(freed)
        instead = self.classes.unmatch(freed)
        for task in self.tasks.values() if instead else ():
            if any(one.id in instead for one in task.classes):  # alike in all that is counted by now
                self.classes.exchange(task, instead)
                self.book.touch(task.job)
                if task.key in self.port_holders.get(task.node, ()):
                    self.port_holders[task.node][task.key] = task.pod_class

    def _reclass(self, task: Task) -> None:
        """Give a pod the class that says which selectors select it."""
        matched = rematched(task, self.classes.selectors)
        if matched is not None:
            self._match(task, matched)

    def _match(self, task: Task, matched: Match) -> None:
        """Give a pod the class of those that these selectors select."""
        self._change(task, lambda task: self.classes.rematch(task, matched))

    def _change(self, task: Task, change: Callable[[Task], None]) -> None:
        """Change what a pod counts as."""
        self._take_out(task)
        change(task)
        self._put_in(task)

    def _move_in(self, names: list[str]) -> None:
        """Let the pods of nodes that are new to the table occupy them."""
        where: dict[tuple[PodClass, bool, bool], list[str]] = {}
        for name in names:
            for task in self.tasks_on.get(name, {}).values():
                kind = task.pod_class, task.status is TaskStatus.RELEASING, not task.queued
                where.setdefault(kind, []).append(name)
        for (pod_class, releasing, outside), nodes in where.items():
            self.nodes.occupy_all(nodes, pod_class, releasing=releasing, outside=outside)


def _drop(index: MutableMapping[str, Any], node: str, key: str) -> None:
    held = index[node]
    del held[key]
    if not held:
        del index[node]
