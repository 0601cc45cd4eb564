"""Training jobs that are divided over members, as Volcano Jobs with a task for each of their pods (pure).

What a pod gets and what becomes of the job are asked of the kind's own controller. Ranks and sizes are those of the
whole; names of other pods become variables, which the hub sets when it knows in which member each pod is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from unisono.api.annotations import CLUSTER_ID
from unisono.api.base import LabelSelector, Object, ObjectMeta
from unisono.api.core import Pod, PodCondition, PodSpec, PodStatus, PodTemplateSpec, Service
from unisono.api.documents import merge_diff
from unisono.api.groups.batch import Job, JobSpec, LifecyclePolicy, TaskSpec
from unisono.api.keys import GROUP_NAME, TASK_INDEX, TASK_SPEC
from unisono.api.kind import Kind
from unisono.api.kinds import CONFIG_MAPS, SECRETS, SERVICES
from unisono.api.selecting import selects
from unisono.api.times import rfc3339
from unisono.controllers.job import view as phases
from unisono.controllers.objects import to_json
from unisono.controllers.plan import Resource
from unisono.controllers.training.controller import Seen
from unisono.fleet.hyper_jobs.work import SVC, host_variable
from unisono.fleet.jobs.work import Made, Priorities, made_of, plan_of
from unisono.jobkinds.registry import PART_LABELS, job_kind

MOST_BYTES: Final = 256 * 1024
"""Of the spec of a job that is divided: it has the template of every pod."""
LONGEST_NAME: Final = 63
"""Of a pod that has a host name."""
NAMED: Final[Mapping[str, list[str]]] = {SVC: ["--disable-network-policy=true", "--publish-not-ready-addresses=true"]}
"""Job plug-ins of parts whose pods have names that all members know: pods of other parts may reach them."""
_RETRIES: Final = 1000
"""Restarts of a pod; whether the job has failed is for its own kind to say."""
_OWN_NOTES: Final = frozenset({GROUP_NAME, TASK_SPEC, TASK_INDEX})
_NO_NAME: Final = re.compile(r"[^a-z0-9]+")


class Whole:
    """A training job with everything that its controller would make of it."""

    def __init__(self, kind: Kind[Any], job: Object, made: Made, now: float) -> None:
        """``made`` is what `made_of` answers."""
        self._kind, self._job, self._made, self._now = kind, job, made, now
        counts: Counter[str] = Counter()
        self._pods: dict[str, Pod] = {}
        for pod in made.seen.pods:
            role = _role(pod)
            self._pods[f"{role}-{counts[role]}"] = pod
            counts[role] += 1

    @cached_property
    def spec(self) -> JobSpec:
        """One Volcano Job with a task for each pod; all of them are its gang."""
        firsts = {_role(pod): pod for pod in reversed(self._pods.values())}
        again = {role: self._is_made_again(pod) for role, pod in firsts.items()}
        renamed = self._renaming()
        group = self._made.group.spec
        return JobSpec(
            scheduler_name=phases.DEFAULT_SCHEDULER,
            min_available=len(self._pods),
            queue=group.queue,
            priority_class_name=group.priority_class_name,
            max_retry=_RETRIES,
            plugins=dict(NAMED),
            tasks=[
                TaskSpec(
                    name=name,
                    replicas=1,
                    min_available=1,
                    max_retry=_RETRIES,
                    template=_template(pod, renamed),
                    policies=[LifecyclePolicy(event="PodFailed", action=phases.RESTART_TASK)]
                    if again[_role(pod)]
                    else None,
                )
                for name, pod in self._pods.items()
            ],
        )

    def obstacle(self) -> str:
        """Why it is not divided; empty where it may be."""
        description = job_kind(self._kind)
        if (pods := description.pods_of(self._job) if description is not None else 0) != len(self._pods):
            return f"{len(self._pods)} of its {pods} pods are made at once, and the others when those run"
        topology = self._made.group.spec.network_topology
        if topology is not None and topology.mode != "soft":
            return "its networkTopology keeps it within one domain"
        for each in self._made.besides:
            if each.kind in (CONFIG_MAPS, SECRETS) and any(_mounts(pod.spec, each) for pod in self._pods.values()):
                return (
                    f"its pods mount {each.kind.kind} {each.obj.metadata.name}, which its controller makes in one "
                    "cluster, and which a hub may not write"
                )
        name = self._job.metadata.name
        longest = max((f"{name}-part-99-{task}-0" for task in self._pods), key=len, default="")
        if len(longest) > LONGEST_NAME:
            return f"names of its pods, such as {longest}, would be longer than {LONGEST_NAME}: give it a shorter name"
        size = len(msgspec.json.encode(self.spec))
        if size > MOST_BYTES:
            return f"its {len(self._pods)} pods take {size} bytes, more than the {MOST_BYTES} of a job that is divided"
        return ""

    def status(self, parts: Sequence[Job]) -> dict[str, Any]:
        """Merge patch for the job's status: what its controller says of pods that fare as those of the parts do."""
        states: dict[str, tuple[str, str]] = {}
        for part in parts:
            for name, task_status in (part.status.task_status_count or {}).items():
                if phase := next((phase for phase, number in (task_status.phase or {}).items() if number), ""):
                    states[name] = part.metadata.name, phase
        pods = [self._as(pod, states[name][1]) for name, pod in self._pods.items() if name in states]
        seen = _with_pods(self._made.seen, self._job, pods)
        written = plan_of(self._kind, seen, self._now).status
        before = to_json(getattr(self._job, "status", None))
        if written is None:
            return {}
        hosts = {pod.metadata.name: f"{states[name][0]}-{name}-0" for name, pod in self._pods.items() if name in states}
        patch: dict[str, Any] = merge_diff(before, _exchanged(to_json(written), hosts))
        return patch

    # ---- inside

    def _as(self, pod: Pod, phase: str) -> Pod:
        ready = PodCondition(type="Ready", status="True" if phase == "Running" else "False")
        status = PodStatus(phase=phase, conditions=[ready], start_time=rfc3339(self._now))
        return msgspec.structs.replace(pod, status=status)

    def _is_made_again(self, failed: Pod) -> bool:
        """Whether the kind's controller makes a pod again that has failed."""
        pods = [self._as(pod, "Failed" if pod is failed else "Running") for pod in self._pods.values()]
        plan = plan_of(self._kind, _with_pods(self._made.seen, self._made.seen.job, pods), self._now)
        return any(pod.metadata.name == failed.metadata.name for pod in plan.delete_pods)

    def _services(self) -> Iterator[Service]:
        yield from self._made.seen.services
        for each in self._made.besides:
            if each.kind is SERVICES and isinstance(each.obj, Service):
                yield each.obj

    def _renaming(self) -> Callable[[str], str]:
        """Replaces the names under which pods of the job reach one of them by a variable."""
        namespace = re.escape(self._job.metadata.namespace or "")
        names: dict[str, str] = {}
        for task, pod in self._pods.items():
            variable = f"$({host_variable(task)})"
            names[pod.metadata.name] = variable
            if pod.spec.hostname:
                host = f"{pod.spec.hostname}.{pod.spec.subdomain}" if pod.spec.subdomain else pod.spec.hostname
                names[host] = names[pod.spec.hostname] = variable
        for service in self._services():
            selector = LabelSelector(match_labels=service.spec.selector or {})
            behind = [task for task, pod in self._pods.items() if selects(selector, pod.metadata.labels)]
            if service.spec.selector and len(behind) == 1:
                names[service.metadata.name] = f"$({host_variable(behind[0])})"
        longest = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        tail = rf"(?:\.{namespace}(?:\.svc(?:\.cluster\.local)?)?)?"
        pattern = re.compile(rf"(?<![\w.-])({longest}){tail}(?![\w-]|\.\w)")
        return lambda text: pattern.sub(lambda match: names[match[1]], text)


def whole_of(kind: Kind[Any], job: Object, now: float, priority: Priorities) -> Whole | None:
    """The job as its controller would run it; None where it asks for no pods."""
    made = made_of(kind, job, now, priority)
    return Whole(kind, job, made, now) if made is not None and made.seen.pods else None


def idle_status(kind: Kind[Any], job: Object, now: float) -> dict[str, Any]:
    """Merge patch for the status of a job that asks for no pods, such as one that is suspended."""
    written = plan_of(kind, Seen(job=job), now).status
    patch: dict[str, Any] = merge_diff(to_json(getattr(job, "status", None)), to_json(written)) if written else {}
    return patch


def needs_names(kind: Kind[Any], clusters: Sequence[str]) -> str:
    """What the network of members lacks in which pods have no names for each other."""
    return (
        f"the pods of a {kind.kind} find each other by names, and Multi-Cluster Services, of which the label "
        f"{CLUSTER_ID} of an AttachedCluster tells, are missing in {', '.join(clusters)}"
    )


def _with_pods(seen: Seen[Any], job: Any, pods: list[Pod]) -> Seen[Any]:
    """What a controller sees where the job's pods are these."""
    return Seen(job=job, pods=pods, services=seen.services, group=seen.group, priority=seen.priority)


def _role(pod: Pod) -> str:
    labels = pod.metadata.labels or {}
    role = next((labels[key] for key in PART_LABELS if labels.get(key)), "pod")
    return _NO_NAME.sub("-", role.lower()).strip("-") or "pod"


def _template(pod: Pod, renamed: Callable[[str], str]) -> PodTemplateSpec:
    notes = {key: value for key, value in (pod.metadata.annotations or {}).items() if key not in _OWN_NOTES}
    spec = to_json(pod.spec)
    for field in ("hostname", "subdomain", "schedulerName"):
        spec.pop(field, None)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        for field in ("command", "args"):
            if container.get(field):
                container[field] = [renamed(each) for each in container[field]]
        for variable in container.get("env") or ():
            if variable.get("value"):
                variable["value"] = renamed(variable["value"])
    meta = ObjectMeta(labels=dict(pod.metadata.labels or {}) or None, annotations=notes or None)
    return PodTemplateSpec(metadata=meta, spec=msgspec.convert(spec, PodSpec))


def _mounts(spec: PodSpec, resource: Resource) -> bool:
    """Whether a pod has a volume of a ConfigMap or a Secret."""
    field, key = ("configMap", "name") if resource.kind is CONFIG_MAPS else ("secret", "secretName")
    return any(
        ((each.get(field) or {}).get(key)) == resource.obj.metadata.name for each in to_json(spec).get("volumes") or ()
    )


def _exchanged(value: Any, names: Mapping[str, str]) -> Any:
    """JSON with the names of pods as they are in members."""
    if isinstance(value, dict):
        return {key: _exchanged(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_exchanged(each, names) for each in value]
    return names.get(value, value) if isinstance(value, str) else value
