"""Copies of a hub's jobs: what is written to a member, how a copy is recognised, and what comes back (pure)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from unisono.api.annotations import (
    CHECKED,
    CLUSTER,
    DISPATCH,
    HUB,
    LAST_CLUSTER,
    MACHINES,
    ORIGIN_GROUP,
    ORIGIN_UID,
    SEAL,
)
from unisono.api.base import LabelSelector, LabelSelectorRequirement, Object
from unisono.api.documents import merge_diff
from unisono.api.groups.batch import Job
from unisono.api.keys import LAST_APPLIED
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS
from unisono.api.selecting import selects
from unisono.api.times import duration_or_none, time_or
from unisono.controllers.job import view
from unisono.controllers.objects import to_json
from unisono.fleet.jobs.work import held_back

# How long a hub waits for members, as annotations of an object say it (pure).


def annotated_seconds(obj: Object, key: str, default: float) -> float:
    """Seconds that an annotation names, no fewer than 0; ``default`` without it, and for a text that is no duration."""
    given = duration_or_none((obj.metadata.annotations or {}).get(key))
    return default if given is None else max(0.0, given)


# When jobs that have ended are deleted (pure).
#
# The hub's object has the time to live, and its copies have none: a copy that its member deletes at its end would look
# like one that was lost, and be made again.

_TTL: Final = "ttlSecondsAfterFinished"
_ENDS: Final = frozenset({"Succeeded", "Failed", "Complete", "Completed"})


def without_ttl(spec: dict[str, Any]) -> dict[str, Any]:
    """A job's spec, as JSON, without a time to live."""
    trimmed = {key: value for key, value in spec.items() if key != _TTL}
    policy = trimmed.get("runPolicy")
    if isinstance(policy, dict):
        trimmed["runPolicy"] = {key: value for key, value in policy.items() if key != _TTL}
    return trimmed


def expires_in(job: Object, now: float) -> float | None:
    """Seconds until a job that conditions tell has ended is to be deleted; None for never.

    Times that a member's clock has written count as past at the latest now.
    """
    spec: Any = getattr(job, "spec", None)
    spec = getattr(spec, "run_policy", None) or spec  # kinds of Kubeflow have it there
    ttl: int | None = getattr(spec, "ttl_seconds_after_finished", None)
    if ttl is None:
        return None
    for condition in getattr(getattr(job, "status", None), "conditions", None) or ():
        if condition.type in _ENDS and condition.status == "True":
            ended = time_or(condition.last_transition_time, now)
            return max(0.0, min(ended, now) + ttl - now)
    return None


# Variables in the containers of whatever makes pods (pure).

_DEEPEST_TEMPLATE: Final = 40


def with_environment(value: Any, variables: Mapping[str, str], depth: int = 0) -> Any:
    """JSON with these variables in every container of every pod template; those that a container sets itself stay."""
    if depth > _DEEPEST_TEMPLATE:
        return value
    if isinstance(value, list):
        return [with_environment(each, variables, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    extended = {key: with_environment(each, variables, depth + 1) for key, each in value.items()}
    for key in ("containers", "initContainers"):
        if isinstance(extended.get(key), list):
            extended[key] = [_container(each, variables) for each in extended[key]]
    return extended


def _container(container: Any, variables: Mapping[str, str]) -> Any:
    if not isinstance(container, dict):
        return container
    given = container.get("env") or []
    names = {each.get("name") for each in given if isinstance(each, dict)}
    # In front, so that the container's own may refer to them.
    added = [{"name": name, "value": value} for name, value in variables.items() if name not in names]
    return {**container, "env": [*added, *given]}


# What a job asks of its cluster, taken out of its copy: in the chosen member it is met (pure).
#
# A hub gives the nodes of its state the labels of their AttachedCluster. The member's own nodes do not have them, and
# its scheduler would find no node for a pod that asks for one.

_DEEPEST_REQUEST: Final = 40
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def without_labels(value: Any, labels: Mapping[str, str], depth: int = 0) -> Any:
    """JSON whose pod templates do not ask for these labels any more, where a node with them meets what is asked."""
    if depth > _DEEPEST_REQUEST:
        return value
    if isinstance(value, list):
        return [without_labels(each, labels, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("containers"), list):
        return _spec(value, labels)
    return {key: without_labels(each, labels, depth + 1) for key, each in value.items()}


def _spec(spec: dict[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    adapted = dict(spec)
    selector = adapted.get("nodeSelector")
    if isinstance(selector, dict):
        adapted["nodeSelector"] = {key: each for key, each in selector.items() if labels.get(key) != each}
    nodes = (adapted.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms")
    if terms:
        left = [each for each in (_term(term, labels) for term in terms) if each is not None]
        nodes = {key: each for key, each in nodes.items() if key != _REQUIRED}
        # One term that is met is enough; where none can be, the terms stay as they are.
        if all(_asks(each) for each in left):
            nodes[_REQUIRED] = {"nodeSelectorTerms": left or terms}
        adapted["affinity"] = {**adapted["affinity"], "nodeAffinity": nodes}
    return adapted


def _term(term: dict[str, Any], labels: Mapping[str, str]) -> dict[str, Any] | None:
    """The rest of a term; None for one that no node of the member meets."""
    if not _asks(term):
        return None
    expressions = term.get("matchExpressions") or []
    about = [each for each in expressions if each.get("key") in labels and each.get("operator") in _OPERATORS]
    asked = [LabelSelectorRequirement(each["key"], each["operator"], each.get("values")) for each in about]
    if not selects(LabelSelector(match_expressions=asked), labels):
        return None
    return {**term, "matchExpressions": [each for each in expressions if each not in about]}


def _asks(term: dict[str, Any]) -> bool:
    return bool(term.get("matchExpressions") or term.get("matchFields"))


# Seals of dispatches: only the hub can say that it sent a job to a member under a number (pure).
#
# A hub that was restored from an older backup learns from copies which dispatches it has forgotten. Without a seal, a
# member could raise the number on its copy, or bring back an old one, and take a job from another member.

KEY_BYTES: Final = 32
_LENGTH: Final = 40


def seal(key: bytes, origin: str, cluster: str, generation: int) -> str:
    """The seal of one dispatch.

    Args:
        key: the hub's.
        origin: uid of the hub's job.
        cluster: the member.
        generation: number of the dispatch.
    """
    text = f"{len(origin)}:{origin}/{len(cluster)}:{cluster}/{generation}"
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:_LENGTH]


def is_sealed(key: bytes, text: str, origin: str, cluster: str, generation: int) -> bool:
    """Whether a text is the seal of this dispatch."""
    return hmac.compare_digest(text.encode(), seal(key, origin, cluster, generation).encode())


_DEEPEST = 40
_POD_COUNTS = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
# Written by the hub's API server alone.
SERVER_FIELDS = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
OWN_FIELDS = ("ownerReferences", "finalizers", "deletionTimestamp", "deletionGracePeriodSeconds")


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job of the hub is, as its annotations say.

    Attributes:
        cluster: the member; empty while it waits on the hub.
        generation: how many times it was sent to a member, or taken back.
        last: the member from which it is being taken back.
    """

    cluster: str = ""
    generation: int = 0
    last: str = field(default="", compare=False)

    def to(self, cluster: str) -> Placement:
        """The next dispatch."""
        return Placement(cluster, self.generation + 1)

    def back(self) -> Placement:
        """Taken back: whatever copy exists is old from now on."""
        return Placement("", self.generation + 1, last=self.cluster)

    def patch(self, version: str | None) -> dict[str, Any]:
        """The merge patch that writes it down, if the job is still at ``version``."""
        marks = {CLUSTER: self.cluster or None, DISPATCH: str(self.generation)}
        if self.last:
            marks[LAST_CLUSTER] = self.last
        return {"metadata": {"resourceVersion": version, "annotations": marks}}


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a job in a member.

    Attributes:
        cluster: the member.
        kind: kind of the job.
        namespace, name, uid: the copy.
        origin: uid of the hub's job.
        generation: of its dispatch.
        deleting: it is on its way out.
        sealed: the hub has sent it under this number; else the member may have written it there.
    """

    cluster: str
    kind: Kind[Any]
    namespace: str
    name: str
    uid: str
    origin: str
    generation: int
    deleting: bool = False
    sealed: bool = True


def placement_of(job: Object) -> Placement:
    """Where the job is."""
    marks = job.metadata.annotations or {}
    return Placement(marks.get(CLUSTER, ""), _number(marks.get(DISPATCH)))


def copy_of(cluster: str, kind: Kind[Any], obj: Object, key: bytes = b"") -> Copy | None:
    """What the labels of a member's object say; None for one that is no copy. ``key`` is the hub's, for its seals."""
    meta = obj.metadata
    labels = meta.labels or {}
    if not labels.get(ORIGIN_UID):
        return None
    generation = _number(labels.get(DISPATCH))
    mark = (meta.annotations or {}).get(SEAL, "")
    return Copy(
        cluster,
        kind,
        meta.namespace or "",
        meta.name,
        meta.uid or "",
        labels[ORIGIN_UID],
        generation,
        meta.deletion_timestamp is not None,
        not key or is_sealed(key, mark, labels[ORIGIN_UID], cluster, generation),
    )


def copy_to_write(
    kind: Kind[Any],
    job: Object,
    hub: str,
    generation: int,
    group: str,
    *,
    held: bool = False,
    environment: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    cluster: str = "",
    key: bytes = b"",
) -> Object:
    """The object that a member gets: the job without its status, marked, and with marks for its pods.

    Args:
        kind: kind of the job.
        job: the hub's job.
        hub: the hub's identity.
        generation: of this dispatch.
        group: name of the PodGroup that stands for the job on the hub.
        held: of a part of a gang: it gets no pods yet.
        environment: of a part of a gang: variables of its containers.
        labels: those that the hub alone gives the member's nodes; what asks for them is met there.
        cluster: the member.
        key: the hub's, for its seal.
    """
    value = to_json(job)
    value.pop("status", None)
    meta = {name: each for name, each in value["metadata"].items() if name not in (*SERVER_FIELDS, *OWN_FIELDS)}
    marks = {HUB: hub, ORIGIN_UID: job.metadata.uid or "", DISPATCH: str(generation)}
    own = {LAST_APPLIED, CHECKED, CLUSTER, DISPATCH, LAST_CLUSTER, MACHINES, SEAL}
    annotations = {key: each for key, each in (meta.get("annotations") or {}).items() if key not in own}
    if key:
        annotations[SEAL] = seal(key, marks[ORIGIN_UID], cluster, generation)
    value["metadata"] = {**meta, "labels": {**(meta.get("labels") or {}), **marks}, "annotations": annotations}
    value["spec"] = _marked(without_ttl(value.get("spec", {})), marks, {ORIGIN_GROUP: group}, 0)
    if labels:
        value["spec"] = without_labels(value["spec"], labels)
    if environment:
        value["spec"] = with_environment(value["spec"], environment)
    if held:
        value["spec"] = held_back(value["spec"])
    copied: Object = msgspec.convert(value, kind.struct)
    return copied


def _marked(value: Any, labels: Mapping[str, str], annotations: Mapping[str, str], depth: int) -> Any:
    """``value`` with marks on every pod template in it: whatever has a spec with containers."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        return [_marked(each, labels, annotations, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    spec = value.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
        meta = value.get("metadata") or {}
        return {
            **value,
            "metadata": {
                **meta,
                "labels": {**(meta.get("labels") or {}), **labels},
                "annotations": {**(meta.get("annotations") or {}), **annotations},
            },
        }
    return {key: _marked(each, labels, annotations, depth + 1) for key, each in value.items()}


def status_patch(job: Object, copied: Object) -> dict[str, Any]:
    """Merge patch that brings the copy's status to the hub's job; empty where it says the same.

    A copy that was opened just now says Running from when it asked for no pods: that is Pending until there are any.
    """
    copied_status = to_json(getattr(copied, "status", None))
    if isinstance(copied, Job) and not any(copied_status.get(name) for name in _POD_COUNTS):
        state = copied_status.get("state") or {}
        if state.get("phase") == view.RUNNING and any(task.replicas for task in copied.spec.tasks or ()):
            copied_status["state"] = {**state, "phase": view.PENDING}
    patch = merge_diff(to_json(getattr(job, "status", None)), copied_status)
    patch.pop("controlledResources", None)
    return patch


def waiting_patch(kind: Kind[Any], job: Object) -> dict[str, Any]:
    """Merge patch that takes from the hub's job what its last copy said, once it waits again; empty where it waits."""
    phase = {"state": {"phase": "Pending"}} if kind is JOBS else {}
    before = to_json(getattr(job, "status", None))
    state = before.get("state")
    if kind is JOBS and isinstance(state, dict) and state.get("phase") == "Pending":
        phase = {"state": state}
    return merge_diff(before, phase)


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() and len(text) < 10 else 0
