"""Each field that a shape of a public manifest sets makes a difference, or its author is told.

Nobody writes down here what a field does: each is taken away, and where that shows nothing another value is given. What
is made then, what is said and how the job ends, with pods that end well and with pods that fail, is compared with what
comes of the shape as it is.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from support.shapes import SHAPES, placed, run
from unisono.api.annotations import EXIT_CODE, RUN_SECONDS
from unisono.errors import ApiError
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.paths import first, put, walk
from unisono.jobkinds.registry import job_kind_of
from unisono.kube.discovery import request_json

LATER = "counts later than is waited for here"
BOUND = "a bound for those who change the number of pods"
CARRIED: Final = {
    "spec.activeDeadlineSeconds": LATER,
    "spec.backoffLimit": LATER,
    "spec.failurePolicy.maxRestarts": LATER,
    "spec.maxFailedIndexes": LATER,
    "spec.maxRetry": LATER,
    "spec.tasks.*.maxRetry": LATER,
    "spec.workerGroupSpecs.*.scaleStrategy.workersToDelete.*": "names a pod that is there, when workers are to go",
    "spec.preRunningDeadlineSeconds": "counts from each try anew; whether it passes before the last look is chance",
    "spec.runPolicy.activeDeadlineSeconds": LATER,
    "spec.runPolicy.backoffLimit": LATER,
    "spec.runPolicy.ttlSecondsAfterFinished": LATER,
    "spec.ttlSecondsAfterFinished": LATER,
    "spec.failedJobsHistoryLimit": LATER,
    "spec.successfulJobsHistoryLimit": LATER,
    "spec.startingDeadlineSeconds": "counts when a controller was away at the time of the schedule",
    "spec.minReadySeconds": "counts when pods are replaced",
    "spec.minAvailable": "of a HyperJob: counts when some of its jobs fail and others do not",
    "spec.strategy.rollingUpdate.maxUnavailable": "counts when a template changes",
    "spec.updateStrategy.rollingUpdate.maxUnavailable": "counts when a template changes",
    "spec.completions": "counts when pods end, and pods of a scheduler that is not there do not begin",
    "spec.replicatedJobs.*.template.spec.backoffLimit": LATER,
    "spec.replicatedJobs.*.template.spec.podReplacementPolicy": "counts when pods fail",
    "spec.submitterPodTemplate.spec.restartPolicy": "Never is what it always has; of other values the author is told",
    "spec.successPolicy.rules.*.succeededCount": "counts where some pods end before others",
    "spec.successPolicy.rules.*.succeededIndexes": "counts where some pods end before others",
    "spec.successPolicy": "counts where some workers end before others",
    "spec.failurePolicy.rules.*.name": "a name for people",
    "spec.headGroupSpec.rayStartParams.dashboard-host": "an address, and addresses are not compared",
    "spec.rayVersion": "the image has a version of Ray anyway",
    "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds": "a gang that waits holds nothing",
    "spec.workerGroupSpecs.*.maxReplicas": BOUND,
    "spec.workerGroupSpecs.*.minReplicas": BOUND,
    "spec.workerGroupSpecs.*.replicas": "of a group that is suspended",
    "spec.workerGroupSpecs.*.template.spec.containers.*.image": "of a group that is suspended",
}
"""Fields that count, but not in what is told here."""

_ROOM = {"cpu": "100000", "memory": "1000Ti", "pods": "20000", "nvidia.com/gpu": "20000"}
_NODES = [
    {"name": f"n{number}", "capacity": _ROOM, "labels": {"zone": "a", "rack": f"r{number}"}} for number in range(3)
]
_SECONDS = (5, 25, 80)
_AT_ONCE = 150
_RUN_SECONDS = "20"
_PODS, _EVENTS = "/api/v1/pods", "/api/v1/events"
_MADE: Final = (
    _PODS,
    "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    "/api/v1/services",
    "/api/v1/configmaps",
    "/api/v1/persistentvolumeclaims",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/deployments",
    "/apis/autoscaling/v2/horizontalpodautoscalers",
    "/apis/batch/v1/jobs",
    "/apis/batch.volcano.sh/v1alpha1/jobs",
    "/apis/jobset.x-k8s.io/v1alpha2/jobsets",
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/apis/ray.io/v1/rayclusters",
)
_OWN: Final = frozenset(
    ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "observedGeneration", "nodeName")
)
# What differs between two objects that are the same: uids and their hashes, times, suffixes, addresses, nodes.
_DRAWN: Final = tuple(
    re.compile(each)
    for each in (
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        r"\b[0-9a-f]{40}\b",
        r"\d{4}-\d\d-\d\dT[\d:.]+Z",
        r"-[bcdfghjklmnpqrstvwxz0-9]{5,10}(?!\w)",
        r"-[a-z0-9]{5}(?=[\"\.\s/,:]|$)",
        r"\b\d+\.\d+\.\d+\.\d+\b",
        r"\bn[0-2]\b",
        r"\b\d+ ?s\b",
    )
)
At = tuple[str | int, ...]


class Trial(NamedTuple):
    """A shape with one change, or none."""

    of: str
    code: int | None  # with which its pods end; None: they stay
    at: At
    kind: JobKind
    body: dict[str, Any]


def leaves(value: Any, at: At) -> Iterator[tuple[At, Any]]:
    """Each value that is set; what is empty sets nothing."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, (*at, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from leaves(each, (*at, number))
    elif value not in ("", None):
        yield at, value


def without(obj: dict[str, Any], at: At) -> dict[str, Any]:
    found: Any = copy.deepcopy(obj)
    above = found
    for key in at[:-1]:
        above = above[key]
    del above[at[-1]]
    return found  # type: ignore[no-any-return]


def other(obj: dict[str, Any], at: At, value: Any) -> dict[str, Any]:
    found: Any = copy.deepcopy(obj)
    above = found
    for key in at[:-1]:
        above = above[key]
    if isinstance(value, bool):
        above[at[-1]] = not value
    elif isinstance(value, int):
        above[at[-1]] = value + 1
    else:
        number = re.match(r"\d+", value)
        above[at[-1]] = f"{int(number[0]) + 1}{value[number.end() :]}" if number else f"{value}x"
    return found  # type: ignore[no-any-return]


def title(at: At) -> str:
    return ".".join("*" if isinstance(each, int) else each for each in at)


def jobs() -> Iterator[tuple[str, JobKind, dict[str, Any]]]:
    for shape in SHAPES:
        kind = job_kind_of(shape["object"])
        if "refused" not in shape and kind is not None and kind.runs:
            yield shape["of"], kind, shape["object"]


def ends(kind: JobKind) -> tuple[int | None, ...]:
    return (0, 1) if kind.ends else (None,)


def ending(trial: Trial, namespace: str) -> dict[str, Any]:
    """Its object, whose pods end as the trial says."""
    body = placed(trial.body, namespace)
    for place in trial.kind.templates if trial.code is not None else ():
        for path, _ in list(walk(body, place)):
            notes = first(body, f"{path}.metadata.annotations") or {}
            given = notes | {RUN_SECONDS: _RUN_SECONDS, EXIT_CODE: str(trial.code)}
            put(body, f"{path}.metadata.annotations", given)
    return body


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if key not in _OWN}
    return [plain(each) for each in value] if isinstance(value, list) else value


def text(value: Any, namespace: str) -> str:
    found = json.dumps(plain(value), sort_keys=True).replace(namespace, "NAMESPACE")
    for each in _DRAWN:
        found = each.sub("-", found)
    return found


class Outcome(NamedTuple):
    """What was said, what was made and how the object ended."""

    told: frozenset[str]
    made: frozenset[str]
    status: str

    @property
    def pods(self) -> bool:
        return any(each.startswith(_PODS) for each in self.made)


def outcomes(trials: list[Trial], folder: Path) -> list[Outcome]:
    """What comes of trials, on one plane after another."""
    found: list[Outcome] = []
    for begin in range(0, len(trials), _AT_ONCE):
        found += _outcomes(trials[begin : begin + _AT_ONCE], folder)
    return found


def _outcomes(trials: list[Trial], folder: Path) -> list[Outcome]:
    told: dict[str, set[str]] = defaultdict(set)
    made: dict[str, set[str]] = defaultdict(set)
    status: dict[str, str] = {}
    names = {f"trial{number:05d}z": each for number, each in enumerate(trials)}

    async def story(plane: Any) -> None:
        for namespace, each in names.items():
            await plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            body, said = ending(each, namespace), []
            path = plane.resources.of(body["apiVersion"], body["kind"]).path(namespace)
            try:
                strict = {"fieldValidation": "Strict"}
                await request_json(plane.client, "POST", path, body=body, params=strict, warned=said.append)
            except ApiError as error:
                said.append(str(error))
            told[namespace].update(text(each, namespace) for each in said)
        for seconds in _SECONDS:
            await asyncio.sleep(seconds)
            await look(plane)

    async def look(plane: Any) -> None:
        own = {each.kind.kind.path(None) for each in trials}
        for path in (*_MADE, *own, _EVENTS):
            for item in (await request_json(plane.client, "GET", path))["items"]:
                namespace = item["metadata"].get("namespace")
                if namespace not in names:
                    continue
                if path == _EVENTS:
                    if item["type"] == "Warning":
                        told[namespace].add(text([item.get("reason"), item.get("message")], namespace))
                elif path == names[namespace].kind.kind.path(None) and not item["metadata"].get("ownerReferences"):
                    status[namespace] = text(item.get("status"), namespace)
                else:
                    made[namespace].add(path + text({**item, "status": None}, namespace))

    run(folder, story, _NODES)
    return [Outcome(frozenset(told[each]), frozenset(made[each]), status.get(each, "")) for each in names]


def is_told(at: At, said: str) -> bool:
    """Whether the author hears of a field, or of the one that it is a part of."""
    above = (
        "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in at[:end])[1:] for end in (2, 3, 4)
    )
    return any(f"{each} has no effect" in said for each in above)


def silent(chosen: list[tuple[str, JobKind, dict[str, Any]]], folder: Path) -> tuple[int, set[tuple[str, str]]]:
    """How many fields were tried, and those that made no difference: names of shapes, and fields."""
    bases = [Trial(of, code, (), kind, body) for of, kind, body in chosen for code in ends(kind)]
    twice = outcomes(bases + bases, folder)
    usual = {(each.of, each.code): found for each, found in zip(bases, twice, strict=False)}
    again = {(each.of, each.code): found for each, found in zip(bases, twice[len(bases) :], strict=True)}
    # Nothing is known of a shape that makes nothing here, nor where chance decides.
    known = {each for each, found in usual.items() if found.pods and found == again[each]}
    left = {
        (of, at): (kind, body, value)
        for of, kind, body in chosen
        for at, value in leaves(body["spec"], ("spec",))
        if any((of, code) in known for code in ends(kind))
    }
    number = len(left)
    said = {of: " ".join(found.told) for (of, _), found in usual.items()}
    left = {(of, at): each for (of, at), each in left.items() if not is_told(at, said[of])}
    for change in (lambda body, at, _: without(body, at), other):
        trials = [
            Trial(of, code, at, kind, change(body, at, value))
            for (of, at), (kind, body, value) in left.items()
            for code in ends(kind)
            if (of, code) in known
        ]
        for each, found in zip(trials, outcomes(trials, folder), strict=True):
            if found != usual[each.of, each.code]:
                left.pop((each.of, each.at), None)
    return number, {(of, title(at)) for of, at in left}


def check(chosen: list[tuple[str, JobKind, dict[str, Any]]], folder: Path, least: int) -> None:
    number, found = silent(chosen, folder)
    unknown = sorted(each for each in found if each[1] not in CARRIED)
    assert not unknown, "\n".join(map(str, unknown))
    assert number > least, number


def test_fields_of_drawn_shapes_make_a_difference_or_are_told(tmp_path: Path) -> None:
    check(list(jobs())[::12], tmp_path, 30)


@pytest.mark.more
def test_every_field_makes_a_difference_or_is_told(tmp_path: Path) -> None:
    check(list(jobs()), tmp_path, 500)


def test_a_field_that_nothing_reads_is_found(tmp_path: Path) -> None:
    shape = next(each for each in jobs() if each[0] == "KubeRay, fault tolerance of the head")
    number, found = silent([shape], tmp_path)
    assert (shape[0], "spec.rayVersion") in found
    assert number > len(found)
