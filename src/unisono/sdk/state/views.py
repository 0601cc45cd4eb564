"""What is known of a job at one moment, derived from its objects alone: views, progress, and names of jobs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from unisono.api.annotations import PROGRESS
from unisono.api.base import Object
from unisono.api.conditions import ENDED, SUCCEEDED, SUSPENDED
from unisono.api.keys import TASK_SPEC
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS
from unisono.api.pod_states import PodEnd, has_ended, pod_end
from unisono.api.selecting import DEFAULT_QUEUE
from unisono.jobkinds.registry import state_of

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.api.groups.batch import Job
    from unisono.api.groups.scheduling import PodGroup

# How far a job says that it is: ``progress: 30/100`` in its log, or the annotation ``unisono.io/progress`` (pure).

_LINE = re.compile(r"\bprogress: ?(\d{1,12}) ?/ ?(\d{1,12})\b", re.IGNORECASE)
_VALUE = re.compile(r"\s*(\d{1,12})\s*/\s*(\d{1,12})\s*")


class Steps(NamedTuple):
    """Steps done, of all."""

    done: int
    total: int

    def __str__(self) -> str:
        """``30/100``."""
        return f"{self.done}/{self.total}"


def steps_of_line(text: str) -> Steps | None:
    """The last ``progress: 30/100`` of a log line; None where there is none."""
    matches = _LINE.findall(text)
    return _steps(*matches[-1]) if matches else None


def says_steps_alone(text: str) -> bool:
    """Whether a log line says how far the job is and nothing else."""
    return _LINE.fullmatch(text.strip()) is not None


def steps_of_annotations(annotations: Mapping[str, str] | None) -> Steps | None:
    """What ``unisono.io/progress: 30/100`` says; None where it is absent or says something else."""
    match = _VALUE.fullmatch((annotations or {}).get(PROGRESS, ""))
    return _steps(match[1], match[2]) if match else None


def slowest(found: Iterable[Steps]) -> Steps | None:
    """The process that is least far: a gang is as far as its slowest process."""
    return min(found, key=lambda steps: steps.done / steps.total, default=None)


def _steps(done: str, total: str) -> Steps | None:
    return Steps(min(int(done), int(total)), int(total)) if int(total) > 0 else None


# What is known of a job at one moment, derived from the objects alone (pure).


@dataclass(frozen=True, slots=True)
class TaskView:
    """Pods of one task by phase; ``wanted`` is the number of replicas."""

    name: str
    wanted: int
    phases: dict[str, int]

    def count(self, phase: str) -> int:
        """Pods in a phase."""
        return self.phases.get(phase, 0)


@dataclass(frozen=True, slots=True)
class JobView:
    """One job (or plain pod) as a user wants to see it.

    Attributes:
        name: of the job.
        namespace: of the job.
        kind: ``Job`` or ``Pod``.
        phase: ``Pending``, ``Running``, ... ``Completed``; for a pod its phase in a job's words.
        queue: name of the queue.
        admitted: the queue has let it in.
        gang: pods that must be placed together.
        placed: pods that have a node.
        tasks: per task.
        waiting: why it waits, one line; empty when it does not.
        ends: pods that have ended, by name.
        message: reason that the job itself gives for its phase.
        nodes: names of the nodes that its pods are on, sorted.
        uid: which incarnation of the name this is.
        api_version: of the kind.
        progress: steps done of all, where the job writes the annotation ``unisono.io/progress``.
    """

    name: str
    namespace: str
    kind: str
    phase: str = "Pending"
    queue: str = "default"
    admitted: bool = False
    gang: int = 1
    placed: int = 0
    tasks: tuple[TaskView, ...] = ()
    waiting: str = ""
    ends: tuple[PodEnd, ...] = ()
    message: str = ""
    nodes: tuple[str, ...] = field(default=())
    uid: str = ""
    api_version: str = JOBS.api_version
    progress: Steps | None = None

    @property
    def title(self) -> str:
        """``job/hello``."""
        return f"{self.kind.lower()}/{self.name}"

    def _repr_html_(self) -> str:
        """A table for notebooks: what the job is, and a row for each task."""
        state = f"{self.phase}: {self.waiting or self.message}" if self.waiting or self.message else self.phase
        head = f"<caption>{escape(self.title)} in queue {escape(self.queue)}, {escape(state)}</caption>"
        rows = "".join(
            f"<tr><td>{escape(task.name)}</td><td>{task.wanted}</td>"
            f"<td>{escape(', '.join(f'{count} {phase}' for phase, count in sorted(task.phases.items())))}</td></tr>"
            for task in self.tasks
        )
        return f"<table>{head}<tr><th>task</th><th>pods</th><th>now</th></tr>{rows}</table>"

    @property
    def ended(self) -> bool:
        """The job will not change any more by itself."""
        return self.phase in ENDED

    @property
    def stopped(self) -> bool:
        """The job has ended, or is suspended."""
        return self.ended or self.phase == SUSPENDED

    @property
    def succeeded(self) -> bool:
        """The job has ended well."""
        return self.phase == SUCCEEDED


def was_admitted(phase: str, group_phase: str | None, placed: Sequence[Pod], *, ran: bool) -> bool:
    """Whether the queue has let a job in, also where its PodGroup and its pods have gone since it ran.

    Args:
        phase: of the job.
        group_phase: of its PodGroup; None where there is none.
        placed: its pods that have a node.
        ran: the job says that it was running once.
    """
    if phase in ("Running", SUCCEEDED) or (ran and phase in ENDED):
        return True
    return bool(placed) or group_phase not in (None, "", "Pending")


def job_view(job: Job, group: PodGroup | None, pods: Sequence[Pod], waiting: str = "") -> JobView:
    """View of a Volcano Job from its objects; ``waiting`` is the verdict's summary."""
    by_task: dict[str, Counter[str]] = {}
    for pod in pods:
        task = (pod.metadata.annotations or {}).get(TASK_SPEC, "")
        by_task.setdefault(task, Counter())[pod.status.phase or "Pending"] += 1
    tasks = tuple(
        TaskView(task.name or "", task.replicas or 0, dict(by_task.get(task.name or "", {})))
        for task in job.spec.tasks or ()
    )
    phase, message = state_of(job)
    placed = [pod for pod in pods if pod.spec.node_name]
    group_phase = group.status.phase if group else None
    return JobView(
        job.metadata.name,
        job.metadata.namespace or "default",
        "Job",
        phase,
        job.spec.queue or DEFAULT_QUEUE,
        admitted=was_admitted(
            phase, group_phase, placed, ran=any(each.status == "Running" for each in job.status.conditions or ())
        ),
        gang=job.spec.min_available or sum(task.wanted for task in tasks),
        placed=len(placed),
        tasks=tasks,
        waiting="" if phase not in ("Pending", "Restarting") else waiting,
        ends=tuple(pod_end(pod) for pod in pods if has_ended(pod)),
        message=message,
        nodes=tuple(sorted({pod.spec.node_name for pod in placed if pod.spec.node_name})),
        uid=job.metadata.uid or "",
    )


POD_PHASES = {"Succeeded": "Completed"}


def pod_view(pod: Pod, waiting: str = "") -> JobView:
    """View of a plain pod, in a job's words."""
    phase = pod.status.phase or "Pending"
    ended = phase in ("Succeeded", "Failed")
    return JobView(
        pod.metadata.name,
        pod.metadata.namespace or "default",
        "Pod",
        POD_PHASES.get(phase, phase),
        admitted=bool(pod.spec.node_name),
        placed=1 if pod.spec.node_name else 0,
        tasks=(TaskView("pod", 1, {phase: 1}),),
        waiting="" if pod.spec.node_name else waiting,
        ends=(pod_end(pod),) if ended else (),
        nodes=(pod.spec.node_name,) if pod.spec.node_name else (),
        uid=pod.metadata.uid or "",
    )


def end_text(end: PodEnd) -> str:
    """``exit code 3 (Error): message``."""
    parts = [] if end.exit_code is None else [f"exit code {end.exit_code}"]
    if end.reason:
        parts.append(f"({end.reason})" if parts else end.reason)
    text = " ".join(parts) or end.phase
    return f"{text}: {end.message}" if end.message else text


def failure_text(view: JobView) -> str:
    """Why a job has not succeeded, in one sentence."""
    ends = [f"{end.name}: {end_text(end)}" for end in view.ends if end.phase == "Failed"][:3]
    reasons = "; ".join(([view.message] if view.message else []) + ends)
    return f"The job {view.name} is {view.phase.lower()}" + (f": {reasons}" if reasons else ".")


def timeout_text(name: str, last: JobView | None, timeout: float | None) -> str:
    """What a job was doing when ``timeout`` seconds were over, in one sentence."""
    why = f": {last.waiting}" if last is not None and last.waiting else ""
    if last is None:
        return f"Nothing was heard of the job {name} within {timeout:g} s: give it more time."
    return f"The job {name} is still {last.phase.lower()} after {timeout:g} s{why}"


# Names of jobs of any kind, typed by the struct that holds such a job.

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class JobHandle(Generic[T]):
    """One job by its names; every call of a client takes it as a job.

    Attributes:
        kind: such as ``PYTORCH_JOBS`` of ``unisono.api.kind_families``.
        namespace: of the job.
        name: of the job.
    """

    kind: Kind[T]
    namespace: str
    name: str

    def __str__(self) -> str:
        """``pytorchjob/train``."""
        return f"{self.kind.singular_name}/{self.name}"


JobRef = JobView | JobHandle[Any] | str
"""A job: what `submit` or `handle` answered; of a Volcano Job also its name, or ``namespace/name``."""
