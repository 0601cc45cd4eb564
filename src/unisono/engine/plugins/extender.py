"""extender: asks a service over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unisono.api.times import parse_duration
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import CPU, MEMORY, PODS, ResourceRegistry, Vector
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import BoolArray, FloatArray, Purpose, Reason, Refusal, Scope, Veto, Vote
from unisono.engine.config.arguments import Argument, Shape, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.limit import aligned
from unisono.engine.session.node_view import NodeView
from unisono.engine.verdict import Cause
from unisono.errors import ConfigError

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.session import Session

# What an extender is told: jobs, tasks, nodes and queues in the field names of Volcano's Go structs.

Body = dict[str, Any]


def resource(vector: Vector, registry: ResourceRegistry) -> Body:
    """``MilliCPU``, ``Memory`` and, by name, the others."""
    amounts = registry.amounts(vector)
    scalars = {name: amount for name, amount in amounts.items() if name not in ("cpu", "memory")}
    return {
        "MilliCPU": int(vector[CPU]),
        "Memory": int(vector[MEMORY]),
        "ScalarResources": scalars,
        "MaxTaskNum": int(vector[PODS]),
    }


def task_of(task: Task, status: TaskStatus, registry: ResourceRegistry) -> Body:
    """One pod."""
    request = resource(task.pod_class.vector, registry)
    meta = {
        "name": task.name,
        "namespace": task.namespace,
        "uid": task.uid,
        "labels": dict(task.labels),
        "annotations": dict(task.annotations),
    }
    return {
        "UID": task.uid,
        "Job": task.job,
        "Name": task.name,
        "Namespace": task.namespace,
        "TaskRole": task.role,
        "Resreq": request,
        "InitResreq": request,
        "NodeName": task.node,
        "Status": status.volcano_number,
        "Priority": task.priority,
        "Preemptable": task.preemptable,
        "BestEffort": task.best_effort,
        "Pod": {"metadata": meta, "spec": {"nodeName": task.node, "priorityClassName": task.priority_class_name}},
    }


def node_of(session: Session, column: int) -> Body:
    """One node as the session sees it now."""
    nodes, registry = session.nodes, session.registry
    facts = nodes.table.facts[column]
    allocatable, used = nodes.allocatable[:, column], nodes.used[:, column]
    meta = {"name": facts.name, "uid": facts.uid, "labels": dict(facts.labels), "annotations": dict(facts.annotations)}
    return {
        "Name": facts.name,
        "Node": {"metadata": meta, "spec": {"unschedulable": facts.unschedulable}},
        "Releasing": resource(nodes.releasing[:, column], registry),
        "Pipelined": resource(nodes.pipelined[:, column], registry),
        "Idle": resource(allocatable - used, registry),
        "Used": resource(used, registry),
        "Allocatable": resource(allocatable, registry),
        "Capacity": resource(allocatable, registry),
    }


def job_of(job: JobState, registry: ResourceRegistry) -> Body:
    """One PodGroup with its pods."""
    record = job.record
    return {
        "UID": job.key,
        "PgUID": job.uid,
        "Name": job.name,
        "Namespace": job.namespace,
        "Queue": job.queue.name,
        "Priority": job.priority,
        "MinAvailable": job.min_member,
        "TaskMinAvailable": dict(job.min_task_member),
        "Allocated": resource(aligned(job.allocated, registry), registry),
        "TotalRequest": resource(aligned(record.request, registry), registry),
        "Tasks": {task.uid: task_of(task, job.status(task), registry) for task in record.tasks.values()},
        "PodGroup": {
            "metadata": {"name": job.name, "namespace": job.namespace, "annotations": dict(record.annotations)},
            "spec": {"minMember": job.min_member, "queue": job.queue.name},
            "status": {"phase": job.phase},
        },
    }


def queue_of(queue: QueueState) -> Body:
    """One queue."""
    record = queue.record
    return {
        "UID": queue.name,
        "Name": queue.name,
        "Weight": record.weight,
        "Queue": {
            "metadata": {"name": queue.name, "annotations": dict(record.annotations)},
            "spec": {"weight": record.weight, "reclaimable": record.reclaimable, "parent": record.parent},
            "status": {"state": record.state},
        },
    }


def requests_any(pod_class: PodClass, names: frozenset[str]) -> bool:
    """Whether a class asks for one of the resources; of no resources: always."""
    return not names or not names.isdisjoint(pod_class.requests)


# extender: asks a service over HTTP, in the protocol of Volcano's extender plug-in.
#
# Decisions are pure, so the call itself is given from outside: `extender_with` makes the plug-in for one transport, to
# be passed to `unisono.engine.run` as ``plugins={"extender": ...}``.

Transport = Callable[[str, Mapping[str, Any], float], Mapping[str, Any]]
"""POSTs a JSON body to a URL within so many seconds and returns the decoded answer; raises whatever goes wrong."""

Begin = Callable[[float], Transport]
"""Makes the transport of one cycle, whose calls may take so many seconds together."""

_VERBS = (
    "onSessionOpen", "onSessionClose", "predicate", "prioritize", "preemptable", "reclaimable", "queueOverused",
    "jobEnqueueable", "jobEnqueued", "jobReady", "allocateFunc", "deallocateFunc",
)  # fmt: skip
_PREFIX = Argument("extender.urlPrefix", "text", "", "where the extender listens; required")
_TIMEOUT = Argument("extender.httpTimeout", "duration", "1s", "time for one call")
_BUDGET = Argument("extender.cycleTimeout", "duration", "3s", "time for all calls of one cycle together")
_IGNORABLE = Argument("extender.ignorable", "bool", False, "true: go on as if it were not there when a call fails")
_RESOURCES = Shape("list", each=Shape("text", form="a name of a resource"))
_MANAGED = Argument(
    "extender.managedResources", "list", None, "only tasks that ask for one of these are shown to it", shape=_RESOURCES
)
_PURPOSES = {Purpose.PREEMPT: "preemptable", Purpose.RECLAIM: "reclaimable"}


class ExtenderPlugin(Plugin):
    """Filters, scores, gates and victims as another service judges; each hook only where its verb is set."""

    name = "extender"
    scope = Scope.JOB
    pure = False
    outside = True
    begin: ClassVar[Begin | None] = None
    known_arguments = (
        _PREFIX,
        _TIMEOUT,
        _BUDGET,
        _IGNORABLE,
        _MANAGED,
        *(Argument(f"extender.{verb}Verb", "text", "", f"path of the call {verb}") for verb in _VERBS),
    )

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        begin = type(self).begin
        if begin is None:
            raise ConfigError("plug-in extender cannot make HTTP calls here; remove it from the tiers")
        self.call = begin(parse_duration(str(argument_value(_BUDGET, self.arguments))))
        self.prefix = str(argument_value(_PREFIX, self.arguments)).rstrip("/")
        if not self.prefix:
            raise ConfigError("plug-in extender needs extender.urlPrefix, such as http://127.0.0.1:8713")
        if not self.prefix.lower().startswith(("http://", "https://")):
            raise ConfigError(f"extender.urlPrefix must begin with http:// or https://, not {self.prefix!r}")
        self.timeout = parse_duration(str(argument_value(_TIMEOUT, self.arguments)))
        self.ignorable = bool(argument_value(_IGNORABLE, self.arguments))
        listed = argument_value(_MANAGED, self.arguments) or []
        self.managed = frozenset(str(e.get("name", "")) if isinstance(e, dict) else str(e) for e in listed)
        verbs = {verb: str(self.arguments.get(f"extender.{verb}Verb") or "").strip("/") for verb in _VERBS}
        self.verbs = {verb: path for verb, path in verbs.items() if path}
        self._fits: dict[tuple[str, int, int, bytes], str] = {}
        self._unasked: dict[tuple[str, int], str] = {}
        self._points: dict[tuple[str, int], FloatArray] = {}

    def _post(self, verb: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = self.call(f"{self.prefix}/{self.verbs[verb]}", body, self.timeout)
        if not isinstance(answer, Mapping):
            raise TypeError(f"extender answered {type(answer).__name__} instead of an object")
        return answer

    # ---- session

    def open(self, session: Session) -> None:
        """Show the whole cluster, where the extender wants that; where that fails nothing is asked in this cycle."""
        self.session = session
        if "onSessionOpen" not in self.verbs:
            return
        registry = session.registry
        body = {
            "Jobs": {job.key: job_of(job, registry) for job in session.jobs},
            "Nodes": {name: node_of(session, at) for at, name in enumerate(session.nodes.names)},
            "Queues": {name: queue_of(queue) for name, queue in session.queues.items()},
            "NamespaceInfo": {},
            "RevocableNodes": {},
            "NodeList": [node_of(session, at) for at in range(session.nodes.size)],
        }
        self._try("onSessionOpen", body)

    def close(self, session: Session) -> None:
        """Say that the session is over."""
        if "onSessionClose" in self.verbs:
            self._try("onSessionClose", {})

    def _try(self, verb: str, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The answer; None when the call failed and that can be ignored."""
        try:
            return self._post(verb, body)
        except Exception:
            if self.ignorable:
                return None
            raise

    # ---- nodes

    def concerns(self, pod_class: PodClass) -> bool:
        """Nodes are asked about for tasks with a managed resource."""
        return bool({"predicate", "prioritize"} & self.verbs.keys()) and requests_any(pod_class, self.managed)

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Asks about each node on which the task would fit, and again when the node has changed.

        Once a call fails, no more are made for that job in this cycle.
        """
        task = self._example(pod_class)
        if "predicate" not in self.verbs or task is None or not self.concerns(pod_class):
            return ()
        refused: dict[str, BoolArray] = {}
        roomy, key = self._roomy(pod_class, nodes), (task.job, pod_class.id)
        for at in roomy if key not in self._unasked else ():
            try:
                text = self._refusal(task, pod_class, int(nodes.columns[at]))
            except Exception as error:
                self._unasked[key] = f"extender failed: {type(error).__name__}"
                break
            if text:
                refused.setdefault(text, np.zeros(nodes.size, dtype=np.bool_))[at] = True
        if key not in self._unasked:
            return [Veto(mask, Reason(text, unresolvable=True)) for text, mask in refused.items()]
        if self.ignorable:
            return ()
        mask = np.zeros(nodes.size, dtype=np.bool_)
        mask[roomy] = True
        return [Veto(mask, Reason(self._unasked[key], unresolvable=True, cause=Cause.EXTENDER))]

    def _refusal(self, task: Task, pod_class: PodClass, column: int) -> str:
        key = (task.job, pod_class.id, column, self.session.matrix[:, column].tobytes())
        if key not in self._fits:
            body = {"task": self._wire(task), "node": node_of(self.session, column)}
            answer = self._post("predicate", body)
            text = str(answer.get("status") or answer.get("errorMessage") or "")
            self._fits[key] = text or ("refused by the extender" if answer.get("code") else "")
        return self._fits[key]

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """Points for the nodes on which the task fits, asked for once per job and kind of task."""
        task = self._example(pod_class)
        if "prioritize" not in self.verbs or task is None or not self.concerns(pod_class):
            return None
        key = (task.job, pod_class.id)
        if key not in self._points:
            self._points[key] = self._ask_points(task, pod_class)
        return self._points[key][nodes.columns]

    def _ask_points(self, task: Task, pod_class: PodClass) -> FloatArray:
        session = self.session
        points = np.zeros(session.nodes.size, dtype=np.float64)
        columns = self._roomy(pod_class, session.nodes)
        body = {"task": self._wire(task), "nodes": [node_of(session, column) for column in columns]}
        answer = self._try("prioritize", body) or {}
        if answer.get("errorMessage") and not self.ignorable:
            raise RuntimeError(f"extender could not score: {answer['errorMessage']}")
        for name, value in (answer.get("nodeScore") or {}).items():
            column = session.snapshot.nodes.index.get(name)
            if column is not None:
                points[column] = float(value)
        return points

    def _roomy(self, pod_class: PodClass, nodes: NodeView) -> list[int]:
        rows = pod_class.rows
        fits = (nodes.future_idle[rows] >= pod_class.amounts[:, None]).all(axis=0)
        return [int(at) for at in np.flatnonzero(fits)]

    def _example(self, pod_class: PodClass) -> Task | None:
        """A waiting task of the class in the job that is served."""
        job = self.session.subject
        waiting = job.record.pending.values() if job is not None else ()
        return next((task for task in waiting if task.pod_class.id == pod_class.id), None)

    def _wire(self, task: Task) -> Body:
        job = self.session.job(task.job)
        return task_of(task, job.status(task) if job is not None else task.status, self.session.registry)

    # ---- gates

    def enqueueable(self, job: JobState) -> Vote | Refusal:
        """The extender's vote: positive permits, negative rejects."""
        if "jobEnqueueable" not in self.verbs:
            return Vote.ABSTAIN
        answer = self._try("jobEnqueueable", {"job": job_of(job, self.session.registry)})
        status = int((answer or {}).get("status") or 0)
        if status < 0:
            return Refusal("the extender does not admit the job", Cause.EXTENDER, event=True)
        return Vote.PERMIT if status > 0 else Vote.ABSTAIN

    def enqueued(self, job: JobState) -> None:
        """Tell it."""
        if "jobEnqueued" in self.verbs:
            self._try("jobEnqueued", {"job": job_of(job, self.session.registry)})

    def ready(self, job: JobState) -> bool:
        """The extender's judgement; a job is not ready while an extender that counts cannot be reached."""
        if "jobReady" not in self.verbs:
            return True
        try:
            answer = self._post("jobReady", {"job": job_of(job, self.session.registry)})
        except Exception:
            return self.ignorable
        return bool(answer.get("status"))

    def overused(self, queue: QueueState) -> Refusal | None:
        """The extender's judgement; no word from one that counts is a yes."""
        if "queueOverused" not in self.verbs:
            return None
        try:
            answer = self._post("queueOverused", {"queue": queue_of(queue)})
        except Exception as error:
            if self.ignorable:
                return None
            return Refusal(f"the extender cannot be asked ({type(error).__name__})", Cause.EXTENDER)
        if not answer.get("overused"):
            return None
        return Refusal(f"the extender says that queue {queue.name} holds all it may", Cause.OVER_SHARE)

    # ---- victims and events

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """Those of the candidates that the extender names; none when it cannot be asked."""
        verb = _PURPOSES.get(purpose, "")
        if verb not in self.verbs or task is None:
            return None
        body = {"evictor": self._wire(task), "evictees": [self._wire(other) for other in candidates]}
        try:
            answer = self._post(verb, body)
        except Exception:
            return None if self.ignorable else np.zeros(len(candidates), dtype=np.bool_)
        if not answer.get("status"):
            return None
        named = {str(victim.get("UID")) for victim in answer.get("victims") or ()}
        return np.array([other.uid in named for other in candidates], dtype=np.bool_)

    def moved(
        self, job: JobState, tasks: Sequence[Task], nodes: Sequence[int], before: TaskStatus, after: TaskStatus
    ) -> None:
        """Tell it about every task that takes or loses a place."""
        placed = after in (TaskStatus.ALLOCATED, TaskStatus.PIPELINED) or before is TaskStatus.RELEASING
        verb = "allocateFunc" if placed else "deallocateFunc"
        if verb not in self.verbs:
            return
        for task, column in zip(tasks, nodes, strict=True):
            if requests_any(task.pod_class, self.managed):
                body = task_of(task, after, self.session.registry)
                self._try(verb, {"task": body | {"NodeName": self.session.snapshot.nodes.names[column]}})


def extender_with(transport: Transport, begin: Begin | None = None) -> type[ExtenderPlugin]:
    """The plug-in for one transport, or for one that is made for each cycle with the seconds that the cycle has."""
    return type("ExtenderPlugin", (ExtenderPlugin,), {"begin": staticmethod(begin or (lambda budget: transport))})
