"""What every kind of job answers, one table for all: ends, suspension, size within limits, pods that come later.

That a queue is refused to who may not use it, wherever a kind may name one, is in `test_jobkinds_queues`.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from support.job_objects import put, small, template
from unisono.api.conditions import ENDED
from unisono.api.decode import decode
from unisono.api.documents import apply_json_patch, apply_merge_patch
from unisono.api.keys import GROUP_MIN_MEMBER
from unisono.api.times import parse_time
from unisono.jobkinds.kind import JobKind, NoSuchField
from unisono.jobkinds.paths import first, walk
from unisono.jobkinds.registry import ALL, FOREIGN, handed_to

EVERY_KIND = pytest.mark.parametrize("kind", ALL, ids=[kind.kind.resource for kind in ALL])
TIME = "2027-01-15T08:00:00Z"


def read(kind: JobKind, value: dict[str, Any]) -> Any:
    return decode(kind.kind, copy.deepcopy(value)).obj


def condition(name: str) -> dict[str, Any]:
    return {"conditions": [{"type": name, "status": "True", "lastTransitionTime": TIME}]}


def phase(name: str) -> dict[str, Any]:
    return {"state": {"phase": name, "lastTransitionTime": TIME}}


# How objects say that they have ended: well, and not.
ENDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "jobs.batch.volcano.sh": (phase("Completed"), phase("Terminated")),
    "jobflows.flow.volcano.sh": ({"state": {"phase": "Succeed"}}, {"state": {"phase": "Failed"}}),
    "rayjobs.ray.io": (
        {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "endTime": TIME},
        {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED", "endTime": TIME},
    ),
    "jobs.batch": (condition("Complete"), condition("Failed")),
    "jobsets.jobset.x-k8s.io": (condition("Completed"), condition("Failed")),
    "trainjobs.trainer.kubeflow.org": (condition("Complete"), condition("Failed")),
    "hyperjobs.training.volcano.sh": (condition("Completed"), condition("Failed")),
    "sparkapplications.sparkoperator.k8s.io": (
        {"applicationState": {"state": "COMPLETED"}},
        {"applicationState": {"state": "FAILED"}},
    ),
    "flinkdeployments.flink.apache.org": ({"jobStatus": {"state": "FINISHED"}}, {"jobStatus": {"state": "FAILED"}}),
    "daskjobs.kubernetes.dask.org": ({"jobStatus": "Successful"}, {"jobStatus": "Failed"}),
    "workflows.argoproj.io": ({"phase": "Succeeded"}, {"phase": "Error"}),
}
KUBEFLOW = condition("Succeeded"), condition("Failed")


@EVERY_KIND
def test_whether_it_has_ended_and_how(kind: JobKind) -> None:
    fresh = small(kind)
    assert kind.state(read(kind, fresh))[0] == kind.state(fresh)[0] == "Pending"
    if not kind.ends:
        return
    good, bad = ENDS[kind.kind.resource] if kind.kind.group != "kubeflow.org" else KUBEFLOW
    for status, well in ((good, True), (bad, False)):
        value = {**fresh, "status": status}
        for obj in (value, read(kind, value)):
            told = kind.state(obj)[0]
            assert told in ENDED
            assert (told == "Completed") is well
            if TIME in str(status):
                assert kind.ended_at(obj) == parse_time(TIME)


@EVERY_KIND
def test_it_is_suspended_and_goes_on_by_its_flag_or_says_how_else(kind: JobKind) -> None:
    value = small(kind)
    if kind.control != "flag":
        with pytest.raises(NoSuchField, match="cannot be suspended as a whole"):
            kind.suspended(True)
        assert not kind.is_suspended(value)
        return
    held = apply_merge_patch(copy.deepcopy(value), kind.suspended(True))
    freed = apply_merge_patch(copy.deepcopy(held), kind.suspended(False))
    for shown in (lambda each: each, lambda each: read(kind, each)):
        assert not kind.is_suspended(shown(value))
        assert kind.is_suspended(shown(held))
        assert not kind.is_suspended(shown(freed))
    if kind.elastic is not None:
        assert list(kind.elastic(read(kind, held))) == []


@EVERY_KIND
@pytest.mark.parametrize("number", [0, 1, 3, 4, 1000])
def test_its_size_changes_within_its_limits_or_not_at_all(kind: JobKind, number: int) -> None:
    value = small(kind)
    obj = read(kind, value)
    names = {each.role or "pod": each for each in kind.pods(obj)} if kind not in FOREIGN else {"pod": None}
    for name in names:
        with pytest.raises(NoSuchField):
            kind.resize(obj, name, -1)
        with pytest.raises(NoSuchField):
            kind.resize(obj, "nobody", number)
        try:
            patch = kind.resize(obj, name, number)
        except NoSuchField:
            continue
        changed = (
            apply_json_patch(value, patch)
            if isinstance(patch, list)
            else apply_merge_patch(copy.deepcopy(value), patch)
        )
        after = read(kind, changed)
        if kind not in FOREIGN:
            assert {each.role or "pod": each.count for each in kind.pods(after)}[name] == number
        for part in kind.elastic(after) if kind.elastic is not None else ():
            assert part.replicas == number or part.least <= part.replicas <= part.most


@EVERY_KIND
def test_what_grows_by_itself_stays_within_its_limits(kind: JobKind) -> None:
    value = small(kind)
    if kind.elastic is None or kind.grown is None:
        return
    if kind.kind.kind == "PyTorchJob":
        value["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3}
    obj = read(kind, value)
    parts = list(kind.elastic(obj))
    assert parts
    for part in parts:
        assert part.least <= part.replicas <= part.most
        grown = apply_merge_patch(copy.deepcopy(value), kind.grown(obj, {part.name: part.most}))
        (after,) = (each for each in kind.elastic(read(kind, grown)) if each.name == part.name)
        assert (after.least, after.most) == (part.least, part.most)


@EVERY_KIND
def test_a_fix_that_lets_the_gang_start_smaller_is_a_valid_object_or_says_what_else(kind: JobKind) -> None:
    value = small(kind)
    try:
        kind.fewer(value, 2)
    except NoSuchField as error:
        assert "run fewer" in str(error) or "lower replicas" in str(error)
        return
    decoded = decode(kind.kind, copy.deepcopy(value))
    assert not decoded.type_errors
    assert not decoded.unknown_fields or GROUP_MIN_MEMBER in str(value["metadata"])


@EVERY_KIND
def test_another_priority_class_and_tier_stand_where_its_struct_has_them(kind: JobKind) -> None:
    value = small(kind)
    kind.use_priority(value, "high")
    kind.allow_tier(value, 2)
    decoded = decode(kind.kind, copy.deepcopy(value))
    assert not decoded.type_errors
    assert not decoded.unknown_fields
    for place in kind.priorities:
        assert [found for _, found in walk(value, place)] or "*" in place


@pytest.mark.parametrize("kind", [each for each in ALL if each.one_group], ids=lambda each: each.kind.resource)
def test_what_is_made_later_counts_and_is_no_member(kind: JobKind) -> None:
    sets = list(kind.pods(small(kind)))
    assert any(each.later for each in sets)
    assert all(each.least == 0 for each in sets if each.later)
    assert sum(each.count for each in sets) == kind.pods_of(small(kind)) >= 3
    for each in sets:
        assert each.spec.containers


def spark(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "spec": spec}


@pytest.mark.parametrize(
    ("spec", "executors", "cpu", "memory"),
    [
        ({"driver": {}, "executor": {}}, 2, "1", "1408Mi"),
        ({"driver": {}, "executor": {"instances": 3, "cores": 4, "memory": "8g"}}, 3, "4", "9012Mi"),
        ({"type": "Python", "executor": {"instances": 1, "memory": "10g"}}, 1, "1", "14336Mi"),
        ({"executor": {"memory": "512m", "memoryOverhead": "512m", "coreRequest": "500m"}}, 2, "500m", "1024Mi"),
        ({"memoryOverheadFactor": "0.5", "executor": {"memory": "2g"}}, 2, "1", "3072Mi"),
        (
            {
                "executor": {"instances": 1},
                "dynamicAllocation": {"enabled": True, "initialExecutors": 4, "minExecutors": 2, "maxExecutors": 9},
            },
            4,
            "1",
            "1408Mi",
        ),
        ({"executor": {"instances": "many", "memory": ["?"], "cores": {}}}, 2, "1", "1408Mi"),
    ],
)
def test_sparks_executors_are_read_in_the_units_of_java(
    spec: dict[str, Any], executors: int, cpu: str, memory: str
) -> None:
    kind = next(each for each in ALL if each.kind.kind == "SparkApplication")
    driver, executor = kind.pods(spark(**spec))
    assert (driver.count, driver.later, executor.count, executor.later) == (1, False, executors, True)
    resources = (executor.spec.containers or [])[0].resources
    assert resources is not None
    assert resources.requests == {"cpu": cpu, "memory": memory}


def test_the_pods_of_a_template_keep_what_it_requests_besides() -> None:
    kind = next(each for each in ALL if each.kind.kind == "SparkApplication")
    body = template(cpu="7")
    body["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
    (_, executor) = kind.pods(spark(executor={"cores": 2, "template": body}))
    requests = first((executor.spec.containers or [])[0], "resources.requests")
    assert requests["cpu"] == "2"
    assert requests["nvidia.com/gpu"] == "1"


MANAGERS = frozenset(name for kind in ALL for name in kind.managers)


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind.managers], ids=lambda kind: kind.kind.resource)
@pytest.mark.parametrize("manager", [*sorted(MANAGERS), "x.io/y", None], ids=str)
def test_an_object_is_another_systems_unless_it_names_the_controller_of_its_kind(
    kind: JobKind, manager: str | None
) -> None:
    value = small(kind) if manager is None else put(small(kind), kind.managed, manager)
    theirs = ("", "") if manager is None or manager in kind.managers else (kind.managed, manager)
    assert handed_to(value) == handed_to(read(kind, value)) == theirs


def test_objects_of_kinds_that_are_no_jobs_are_handed_over_too() -> None:
    other = {"apiVersion": "x.io/v1", "kind": "Thing", "spec": {"managedBy": "x.io/y"}}
    assert handed_to(other) == ("spec.managedBy", "x.io/y")
