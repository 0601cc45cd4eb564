"""A training job as its controller reads it, and what its kind tells the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final

import msgspec

from unisono.api.annotations import WORKING_DIRECTORY
from unisono.api.base import ObjectMeta
from unisono.api.conditions import is_true
from unisono.api.core import Container, EnvVar, Pod, PodTemplateSpec, Service, ServicePort, ServiceSpec
from unisono.api.defaulting.kubeflow import TRAINING, elastic_limits, main_container, replica_specs, run_policy
from unisono.api.groups import autoscaling, kubeflow
from unisono.api.keys import GROUP_NAME, KUBEFLOW_JOB_NAME, KUBEFLOW_REPLICA_TYPE, QUEUE_NAME, TASK_INDEX, TASK_SPEC
from unisono.api.kind import Kind
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS, PYTORCH_JOBS
from unisono.api.selecting import DEFAULT_QUEUE
from unisono.controllers import owners
from unisono.controllers.objects import difference, owner_uid, to_json
from unisono.controllers.owners import TooManyHosts, owned_by, variable_too_long, whole_number
from unisono.controllers.plan import Resource
from unisono.controllers.pod_facts import PodView
from unisono.controllers.training.plan import TrainingPlan
from unisono.jobkinds.registry import queue_of

# A training job as its controller reads it: defaults, what its pods have come to, and its conditions.

# Labels by which tools find the pods of a training job.

OPERATOR_NAME: Final = "training.kubeflow.org/operator-name"
REPLICA_INDEX: Final = "training.kubeflow.org/replica-index"
JOB_ROLE: Final = "training.kubeflow.org/job-role"

RESTARTS: Final = "unisono.io/restarts"
"""Annotation of a job: how often failed pods were replaced since the job was last resumed."""

RESTARTED_PODS: Final = "unisono.io/restarted-pods"
"""Annotation of a job: UIDs of the failed pods that were counted last."""

POD_RESTARTS: Final = "unisono.io/pod-restarts"
"""Annotation of a job: how often in a row pods were replaced, such as ``worker-0=2,worker-3=1``."""

# A training job as its controller reads it: defaults filled in, the run policy in one place.

DEFAULT_SCHEDULER = "volcano"

CREATED, RUNNING, RESTARTING = "Created", "Running", "Restarting"
SUSPENDED, SUCCEEDED, FAILED = "Suspended", "Succeeded", "Failed"

PODS_LACK = "PodsLack"
"""A condition beside the operator's: the job's pods refer to something that their template does not have."""

NEVER, ON_FAILURE, ALWAYS, EXIT_CODE = "Never", "OnFailure", "Always", "ExitCode"


@dataclass(frozen=True, slots=True)
class Role:
    """The pods of one replica type."""

    name: str
    replicas: int
    restart_policy: str
    template: PodTemplateSpec

    @property
    def lower(self) -> str:
        """The name as labels and pod names have it."""
        return self.name.lower()


class TrainingView:
    """One job; cheap to make, never changes the job."""

    def __init__(self, job: kubeflow.AnyTrainingJob) -> None:
        self.job, self.facts = job, TRAINING[type(job)]
        self.status: kubeflow.TrainingStatus = job.status
        self.kind = type(job).__name__
        meta = job.metadata
        self.name, self.namespace, self.uid = meta.name, meta.namespace or "", meta.uid or ""
        self._shared: dict[str, str] = {}

    def once(self, name: str, make: Callable[[], str]) -> str:
        """A text that all pods share, such as a list of hosts: made for the first one, and kept for one look."""
        if name not in self._shared:
            self._shared[name] = make()
        return self._shared[name]

    @cached_property
    def run(self) -> kubeflow.RunPolicy:
        """The run policy in force."""
        return run_policy(self.job.spec)

    @cached_property
    def roles(self) -> list[Role]:
        """Roles in the order in which they are looked at."""
        return [
            Role(name, spec.replicas or 0, spec.restart_policy or NEVER, spec.template)
            for name, spec in replica_specs(self.job).items()
        ]

    def role(self, name: str) -> Role | None:
        """The role of that name."""
        return next((role for role in self.roles if role.name == name), None)

    @property
    def total(self) -> int:
        """Pods of all roles."""
        return sum(role.replicas for role in self.roles)

    @property
    def scheduling(self) -> kubeflow.SchedulingPolicy:
        """The scheduling policy; an empty one when there is none."""
        return self.run.scheduling_policy or kubeflow.SchedulingPolicy()

    @property
    def queue(self) -> str:
        """Where the gang waits."""
        return queue_of(self.job) or DEFAULT_QUEUE

    @property
    def restarts(self) -> int:
        """How often failed pods were replaced."""
        return whole_number((self.job.metadata.annotations or {}).get(RESTARTS)) or 0

    @property
    def pod_restarts(self) -> dict[str, int]:
        """How often in a row pods were replaced, by their name without the job's."""
        text = (self.job.metadata.annotations or {}).get(POD_RESTARTS, "")
        pairs = (entry.partition("=") for entry in text.split(","))
        return {place: number for place, _, count in pairs if (number := whole_number(count)) is not None}

    def container(self, role: Role) -> Container | None:
        """The container of a role that does the work."""
        return main_container(role.template.spec, self.facts.container)

    def port(self, role: Role | None) -> int:
        """The port at which pods of the role are reached."""
        container = self.container(role) if role is not None else None
        for port in (container.ports or ()) if container is not None else ():
            if port.name == self.facts.port_name:
                return port.container_port
        return self.facts.port

    def holds(self, type: str) -> bool:
        """Whether the condition is true."""
        return is_true(self.status.conditions, type)

    @property
    def finished(self) -> bool:
        """Whether the job is over for good."""
        return self.holds(SUCCEEDED) or self.holds(FAILED)


# What the pods of a training job have come to, by role.

_RETRYABLE_FROM = 128


@dataclass(frozen=True, slots=True)
class RolePod(PodView):
    """A pod of the job and its place in it."""

    role: str
    index: int


@dataclass(slots=True)
class RoleTally:
    """Counts of one role.

    Attributes:
        replicas: pods wanted.
        active: pods that run.
        succeeded: pods that succeeded.
        failed: pods that failed, and running ones that are being taken away.
        crashed: pods that failed by themselves.
        pods: the pods within the wanted number, by index.
    """

    replicas: int
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    crashed: int = 0
    pods: dict[int, RolePod] = field(default_factory=dict)

    @property
    def expected(self) -> int:
        """Pods that are still to succeed."""
        return self.replicas - self.succeeded

    def count(self, pod: RolePod) -> None:
        """Take one pod into account; those beyond the wanted number are on their way out."""
        if not 0 <= pod.index < self.replicas:
            return
        self.pods[pod.index] = pod
        if pod.phase == "Running":
            self.active += not pod.deleting
            self.failed += pod.deleting
        elif pod.phase == "Succeeded":
            self.succeeded += 1
        elif pod.crashed:
            self.failed += 1
            self.crashed += 1


def is_retryable(exit_code: int) -> bool:
    """Whether the policy ExitCode tries again after this code."""
    return exit_code >= _RETRYABLE_FROM


# The list of conditions of a training job. Its order is an interface: tools show the last entry as the job's state.

# Setting the one takes the other away.
_EXCLUSIVE = {RUNNING: RESTARTING, RESTARTING: RUNNING}


def with_condition(
    conditions: Iterable[kubeflow.TrainingCondition], wanted: kubeflow.TrainingCondition, now: str
) -> list[kubeflow.TrainingCondition]:
    """The list with one condition set.

    A job that failed stays as it is. A condition that says the same already keeps its message and its place; any other
    moves to the end. The end of a job turns its Running condition to false.

    Args:
        conditions: the list as it was; it is not changed.
        wanted: type, status, reason and message to set.
        now: time in RFC 3339.
    """
    old = list(conditions)
    if is_true(old, FAILED):
        return old
    same = next((each for each in old if each.type == wanted.type), None)
    if same is not None and (same.status, same.reason) == (wanted.status, wanted.reason):
        return old
    kept = same is not None and same.status == wanted.status
    since = same.last_transition_time if same is not None and kept else now
    entry = msgspec.structs.replace(wanted, last_update_time=now, last_transition_time=since)
    return [
        _ended(each, now) if wanted.type in (FAILED, SUCCEEDED) and each.type == RUNNING else each
        for each in old
        if each.type not in (wanted.type, _EXCLUSIVE.get(wanted.type))
    ] + [entry]


def _ended(running: kubeflow.TrainingCondition, now: str) -> kubeflow.TrainingCondition:
    if running.status == "False":
        return running
    return msgspec.structs.replace(running, status="False", last_update_time=now, last_transition_time=now)


# What a kind of training job tells the engine: names, labels, environment, and when it runs, succeeds and fails.


Tallies = Mapping[str, RoleTally]


@dataclass(slots=True)
class Judgement:
    """What the pods say about the job: messages of the conditions to set, empty for those that are not."""

    running: str = ""
    restarting: str = ""
    succeeded: str = ""
    failed: str = ""


class Framework:
    """Base of the kinds; instances keep nothing.

    Class attributes:
        kind: the kind.
        operator: value of the label ``operator-name``, and name of the controller.
        pod_services: whether each pod has a headless Service of its name.
        selector: whether ``replicaStatuses`` has a selector, for the scale subresource.
    """

    kind: ClassVar[Kind[Any]]
    operator: ClassVar[str]
    pod_services: ClassVar[bool] = True
    selector: ClassVar[bool] = False
    autoscales: ClassVar[bool] = False

    def pod_name(self, view: TrainingView, role: Role, index: int) -> str:
        """Name of a pod, and of its Service."""
        return f"{view.name}-{role.lower}-{index}"

    def place(self, view: TrainingView, pod: Pod) -> RolePod | None:
        """The place of a pod in the job, read from its name; None for a pod that has none."""
        for role in view.roles:
            first = self.pod_name(view, role, 0)
            if pod.metadata.name == first:
                return RolePod(pod, role.name, 0)
            prefix, index = first[:-1], whole_number(pod.metadata.name.removeprefix(first[:-1]))
            if first.endswith("-0") and pod.metadata.name.startswith(prefix) and index is not None:
                return RolePod(pod, role.name, index)
        return None

    def labels(self, view: TrainingView, role: Role, index: int) -> dict[str, str]:
        """Labels of a pod, by which its Service selects it."""
        return {
            OPERATOR_NAME: self.operator,
            KUBEFLOW_JOB_NAME: view.name,
            KUBEFLOW_REPLICA_TYPE: role.lower,
            REPLICA_INDEX: str(index),
        }

    def is_master(self, view: TrainingView, role: Role, index: int) -> bool:
        """Whether the pod carries the label ``job-role=master``."""
        return role.name == "Master"

    def may_start(self, view: TrainingView, role: Role, tallies: Tallies) -> bool:
        """Whether pods of the role may be made now."""
        return True

    def restart_policy(self, view: TrainingView, role: Role) -> str:
        """Restart policy of the role's pods, in the job's words."""
        return role.restart_policy

    def is_retried(self, view: TrainingView, role: Role, pod: RolePod) -> bool:
        """Whether a pod that failed is replaced."""
        policy = self.restart_policy(view, role)
        return policy in (ON_FAILURE, ALWAYS) or (
            policy == EXIT_CODE and is_retryable(pod.exit_code(view.facts.container))
        )

    def over_limit(self, view: TrainingView, restarts: int, in_place: int) -> bool:
        """Whether the job has restarted too often.

        Args:
            view: the job.
            restarts: failed pods that were replaced.
            in_place: restarts of containers within running pods.
        """
        limit, count = view.run.backoff_limit, restarts + in_place
        return limit is not None and count > 0 and count >= limit

    def created(self, view: TrainingView) -> str:
        """Message of the condition Created."""
        return f"{view.kind} {view.name} is created."

    def prepare(self, view: TrainingView, role: Role, index: int, pod: Pod) -> None:
        """Complete a pod that is about to be made, in place."""

    def resources(self, view: TrainingView, pods: Sequence[RolePod]) -> Iterable[Resource]:
        """Objects besides pods and their Services that must exist while the job is active."""
        return ()

    def judge(self, view: TrainingView, tallies: Tallies) -> Judgement:
        """What the pods say about the job."""
        raise TypeError(f"{type(self).__name__} must define judge")


def judge_restartable(view: TrainingView, tallies: Tallies, told: Judgement, *, done: bool) -> Judgement:
    """The rule that PyTorch, Paddle and JAX share for failed pods: Never fails the job, other policies restart."""
    if done:
        return told
    for role in view.roles:
        tally = tallies[role.name]
        if tally.failed and tally.replicas > tally.succeeded + tally.active:
            if role.restart_policy == NEVER and tally.crashed:
                told.failed = told.failed or because(view, "failed", tally.crashed, role)
            elif role.restart_policy != EXIT_CODE or tally.failed > tally.crashed:
                told.restarting = told.restarting or because(view, "restarting", tally.failed, role)
    return told


def judge_by_exit_code(view: TrainingView, tallies: Tallies, told: Judgement) -> Judgement:
    """The rule that XGBoost and MPI share: a failed pod fails the job unless its exit code is to be looked at."""
    for role in view.roles:
        tally = tallies[role.name]
        if tally.crashed and role.restart_policy != EXIT_CODE:
            told.failed = because(view, "failed", tally.crashed, role)
            break
        if tally.failed > tally.crashed:
            told.restarting = because(view, "restarting", tally.failed, role)
    return told


def because(view: TrainingView, what: str, count: int, role: Role) -> str:
    """``PyTorchJob n is failed because 1 Worker replica(s) failed.``."""
    return f"{view.kind} {view.name} is {what} because {count} {role.name} replica(s) failed."


def leader(view: TrainingView, *names: str) -> Role | None:
    """The first role of these names that the job has."""
    return next((role for role in view.roles if role.name in names), None)


def append_env(containers: Iterable[Container], variables: Iterable[tuple[str, str]]) -> None:
    """Append variables to the environment of every container, after those of the user.

    Raises:
        TooManyHosts: a variable is longer than the system takes: no container would start.
    """
    added = list(variables)
    for name, value in added:
        if why := variable_too_long(name, value):
            raise TooManyHosts(why)
    for container in containers:
        container.env = [*(container.env or ()), *(EnvVar(name=name, value=value) for name, value in added)]


# Pods and Services of a training job, built from the templates of its roles.


def build_pod(framework: Framework, view: TrainingView, role: Role, index: int) -> Pod:
    """Pod ``index`` of the role, a member of the job's gang."""
    # Decoded from its own bytes: what follows may change all of it.
    template = msgspec.json.decode(msgspec.json.encode(role.template), type=PodTemplateSpec)
    given = view.job.metadata.annotations or {}
    own = framework.labels(view, role, index)
    if framework.is_master(view, role, index):
        own[JOB_ROLE] = "master"
    pod = Pod(
        metadata=ObjectMeta(
            name=framework.pod_name(view, role, index),
            namespace=view.namespace,
            labels=(template.metadata.labels or {}) | owners.inherited_labels(view.job.metadata.labels or {}) | own,
            annotations={
                **{key: given[key] for key in (WORKING_DIRECTORY,) if key in given},
                **owners.inherited_annotations(given),
                **(template.metadata.annotations or {}),
                GROUP_NAME: view.name,
                QUEUE_NAME: view.queue,
                TASK_SPEC: role.lower,
                TASK_INDEX: str(index),
            },
            owner_references=[owned_by(framework.kind, view.job)],
            finalizers=template.metadata.finalizers,
        ),
        spec=template.spec,
    )
    policy = framework.restart_policy(view, role)
    pod.spec.restart_policy = NEVER if policy == EXIT_CODE else policy
    pod.spec.scheduler_name = pod.spec.scheduler_name or DEFAULT_SCHEDULER
    framework.prepare(view, role, index, pod)
    owners.tell_kind_of_nodes(pod)
    return pod


def build_service(framework: Framework, view: TrainingView, role: Role, index: int) -> Service:
    """The headless Service of one pod, with every port of the container that does the work."""
    container = view.container(role)
    selector = framework.labels(view, role, index)
    return Service(
        metadata=ObjectMeta(
            name=framework.pod_name(view, role, index),
            namespace=view.namespace,
            labels=dict(selector),
            owner_references=[owned_by(framework.kind, view.job)],
        ),
        spec=ServiceSpec(
            cluster_ip="None",
            selector=selector,
            ports=[
                ServicePort(name=port.name or f"port-{port.container_port}", port=port.container_port)
                for port in (container.ports or () if container is not None else ())
            ]
            or None,
        ),
    )


# The HorizontalPodAutoscaler of an elastic PyTorchJob with metrics: it changes the number of workers by ``scale``.


def plan_autoscaler(
    plan: TrainingPlan, view: TrainingView, found: autoscaling.HorizontalPodAutoscaler | None, *, active: bool = True
) -> None:
    """Bring the autoscaler about, to what the job says, or away.

    Args:
        plan: where to write it.
        view: the job.
        found: the autoscaler of the job's name, whatever its owner.
        active: False while the job is suspended: then it has none.
    """
    desired = _wanted(plan, view) if active else None
    ours = found is not None and owner_uid(found) == view.job.metadata.uid
    if desired is None:
        if found is not None and ours and not found.metadata.deletion_timestamp:
            plan.remove.append((HORIZONTAL_POD_AUTOSCALERS, found))
    elif found is None:
        plan.ensure.append(Resource(HORIZONTAL_POD_AUTOSCALERS, desired, warning="FailedCreateHPA", missing=True))
    elif not ours:
        text = f"horizontalpodautoscaler {found.key} belongs to something else; delete or rename it."
        plan.warn("FailedCreateHPA", text, once="autoscaler/foreign")
    elif patch := difference(to_json(found), to_json(desired)):
        plan.patches.append((HORIZONTAL_POD_AUTOSCALERS, found.metadata.name, patch))


def _wanted(plan: TrainingPlan, view: TrainingView) -> autoscaling.HorizontalPodAutoscaler | None:
    spec = view.job.spec
    policy = spec.elastic_policy if isinstance(spec, kubeflow.PyTorchJobSpec) else None
    worker = view.role("Worker")
    if policy is None or policy.metrics is None or worker is None:
        return None
    try:
        metrics = msgspec.convert(policy.metrics, list[autoscaling.MetricSpec])
    except msgspec.ValidationError as error:
        text = f"spec.elasticPolicy.metrics is no list of metrics of autoscaling/v2: {error}"
        plan.warn("FailedCreateHPA", text, once=text)
        return None
    low, high = elastic_limits(policy, worker.replicas)
    return autoscaling.HorizontalPodAutoscaler(
        metadata=ObjectMeta(
            name=view.name, namespace=view.namespace, owner_references=[owned_by(PYTORCH_JOBS, view.job)]
        ),
        spec=autoscaling.HorizontalPodAutoscalerSpec(
            scale_target_ref=autoscaling.CrossVersionObjectReference(
                kind=view.kind, name=view.name, api_version=PYTORCH_JOBS.api_version
            ),
            min_replicas=low,
            max_replicas=high,
            metrics=metrics,
        ),
    )
