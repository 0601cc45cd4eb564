"""Jobs: each rule of Volcano's webhook names its field."""

# ruff: noqa: E501 - a case and its message stand on one line, so that both can be searched for

import copy
from typing import Any

import msgspec
import pytest

from unisono.api import kinds
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.groups.batch import Job
from unisono.api.validation import validate


def template(**spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "busybox"}], **spec}}


def task(name: str = "a", replicas: int = 2, **more: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "template": template(), **more}


def make(name: str = "job", **spec: Any) -> Job:
    decoded = decode(kinds.JOBS, {"metadata": {"name": name}, "spec": {"tasks": [task()], **spec}})
    assert (decoded.unknown_fields, decoded.type_errors) == ([], [])
    apply_defaults(kinds.JOBS, decoded.obj)
    return decoded.obj


def messages(job: Job, old: Job | None = None) -> list[str]:
    return [error.message() for error in validate(kinds.JOBS, job, old)]


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
POLICY = {"event": "PodFailed", "action": "RestartJob"}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"minAvailable": 2, "minSuccess": 1, "ttlSecondsAfterFinished": 0},
        {
            "policies": [
                POLICY,
                {"exitCode": 3, "action": "AbortJob"},
                {"event": "PodEvicted", "action": "RestartPod", "timeout": "5m"},
            ]
        },
        {"policies": [{"event": "*", "action": "RestartJob"}], "plugins": {"svc": [], "env": [], "ssh": [], "jax": []}},
        {"policies": [{"events": ["PodEvicted", "PodFailed", "PodEvicted"], "action": "TerminateJob"}]},
        {"volumes": [{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/b", "volumeClaim": CLAIM}]},
        {
            "tasks": [
                task("a"),
                task("b", dependsOn={"name": ["a"]}),
                task("c", dependsOn={"name": ["a", "b"], "iteration": "any"}),
            ]
        },
        {"tasks": [task(replicas=8, partitionPolicy={"totalPartitions": 4, "partitionSize": 2, "minPartitions": 2})]},
        {"plugins": {"mpi": ["--master=lead"]}, "tasks": [task("lead"), task("b")]},
        {"networkTopology": {"mode": "soft", "highestTierAllowed": 0}},
        {"tasks": [task(replicas=0)]},
    ],
)
def test_accepted(spec: dict[str, Any]) -> None:
    assert messages(make(**spec)) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"tasks": []}, "spec.tasks: Required value: No task specified in job spec"),
        (
            {"minAvailable": 3},
            "spec.minAvailable: Invalid value: 3: job 'minAvailable' should not be greater than total replicas in tasks (2)",
        ),
        (
            {"minAvailable": -1},
            "spec.minAvailable: Invalid value: -1: spec.minAvailable in body should be greater than or equal to 0",
        ),
        (
            {"maxRetry": -1},
            "spec.maxRetry: Invalid value: -1: spec.maxRetry in body should be greater than or equal to 0",
        ),
        (
            {"ttlSecondsAfterFinished": -1},
            "spec.ttlSecondsAfterFinished: Invalid value: -1: "
            "spec.ttlSecondsAfterFinished in body should be greater than or equal to 0",
        ),
        (
            {"minSuccess": 0},
            "spec.minSuccess: Invalid value: 0: spec.minSuccess in body should be greater than or equal to 1",
        ),
        (
            {"tasks": [task(replicas=-1)]},
            "spec.tasks[0].replicas: Invalid value: -1: spec.tasks[0].replicas in body should be greater than or equal to 0",
        ),
        (
            {"tasks": [task(minAvailable=5)], "minAvailable": 1},
            "spec.tasks[0].minAvailable: Invalid value: 5: 'minAvailable' is greater than 'replicas' in task: a, job: job",
        ),
        ({"tasks": [task(), task()]}, 'spec.tasks[1].name: Duplicate value: "a": duplicated task name a'),
        (
            {"tasks": [task("A_b")]},
            "spec.tasks[0].name: Invalid value: \"A_b\": spec.tasks[0].name in body should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
        ),
        ({"queue": "Q"}, 'spec.queue: Invalid value: "Q": spec.queue in body should match \'^[a-z0-9]([-a-z0-9]*'),
        ({"schedulerName": "s" * 64}, "spec.schedulerName: Too long: may not be more than 63 bytes"),
        ({"plugins": {"nope": []}}, 'spec.plugins[nope]: Invalid value: "nope": unable to find job plugin: nope'),
        ({"plugins": {"mpi": []}}, "spec.tasks: Required value: The specified mpi master task was not found"),
        (
            {"networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}},
            "spec.networkTopology: Invalid value: \"rack\": must not specify 'highestTierAllowed' and 'highestTierName' in "
            "networkTopology simultaneously",
        ),
        (
            {"networkTopology": {"mode": "firm"}},
            'spec.networkTopology.mode: Unsupported value: "firm": supported values: "hard", "soft"',
        ),
        ({"runningEstimate": "soon"}, 'spec.runningEstimate: Invalid value: "soon": time: invalid duration "soon"'),
        # policies
        (
            {"policies": [POLICY | {"exitCode": 3}]},
            "spec.policies[0]: Invalid value: 3: must not specify event and exitCode simultaneously",
        ),
        (
            {"policies": [{"action": "AbortJob"}]},
            "spec.policies[0]: Required value: either event and exitCode should be specified",
        ),
        (
            {"policies": [{"event": "Bogus", "action": "AbortJob"}]},
            'spec.policies[0].event: Unsupported value: "Bogus": supported values: "*", "PodPending"',
        ),
        (
            {"policies": [{"event": "OutOfSync", "action": "AbortJob"}]},
            'spec.policies[0]: Invalid value: "OutOfSync": invalid policy event',
        ),
        (
            {"policies": [{"event": "PodFailed", "action": "SyncJob"}]},
            'spec.policies[0].action: Unsupported value: "SyncJob": supported values: "AbortJob"',
        ),
        ({"policies": [{"event": "PodFailed"}]}, "spec.policies[0].action: Required value: invalid policy action"),
        (
            {"policies": [POLICY, POLICY]},
            'spec.policies[1]: Duplicate value: "PodFailed": duplicate event PodFailed  across different policy',
        ),
        (
            {"policies": [{"exitCode": 0, "action": "AbortJob"}]},
            "spec.policies[0].exitCode: Invalid value: 0: 0 is not a valid error code",
        ),
        (
            {"policies": [{"exitCode": 2, "action": "AbortJob"}, {"exitCode": 2, "action": "AbortJob"}]},
            "spec.policies[1].exitCode: Duplicate value: 2: duplicate exitCode 2",
        ),
        (
            {"policies": [POLICY, {"event": "*", "action": "AbortJob"}]},
            "spec.policies: Forbidden: if there's * here, no other policy should be here",
        ),
        (
            {"policies": [POLICY | {"timeout": "5 minutes"}]},
            'spec.policies[0].timeout: Invalid value: "5 minutes": time: invalid duration "5 minutes"',
        ),
        (
            {"tasks": [task(policies=[{"action": "AbortJob"}])]},
            "spec.tasks[0].policies[0]: Required value: either event and exitCode should be specified",
        ),
        # volumes
        ({"volumes": [{"volumeClaimName": "x"}]}, "spec.volumes[0].mountPath: Required value"),
        (
            {"volumes": [{"mountPath": "/a:b", "volumeClaimName": "x"}]},
            "spec.volumes[0].mountPath: Invalid value: \"/a:b\": spec.volumes[0].mountPath in body should match '^[^:]*$'",
        ),
        (
            {"volumes": [{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/a", "volumeClaimName": "y"}]},
            'spec.volumes[1].mountPath: Duplicate value: "/a": duplicated mountPath: /a',
        ),
        (
            {"volumes": [{"mountPath": "/a"}]},
            "spec.volumes[0]: Required value: either VolumeClaim or VolumeClaimName must be specified",
        ),
        (
            {"volumes": [{"mountPath": "/a", "volumeClaimName": "x", "volumeClaim": CLAIM}]},
            'spec.volumes[0].volumeClaimName: Invalid value: "x": conflict: If you want to use an existing PVC',
        ),
        (
            {"volumes": [{"mountPath": "/a", "volumeClaimName": "X"}]},
            'spec.volumes[0].volumeClaimName: Invalid value: "X": a lowercase RFC 1123 subdomain',
        ),
        (
            {"volumes": [{"mountPath": "/a", "volumeClaim": {}}]},
            "spec.volumes[0].volumeClaim.accessModes: Required value: at least 1 access mode is required",
        ),
        # dependencies
        (
            {"tasks": [task("a", dependsOn={"name": ["z"]})]},
            'spec.tasks[0].dependsOn.name: Unsupported value: "z": supported values: "a"',
        ),
        (
            {"tasks": [task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]})]},
            'spec.tasks: Invalid value: ["a","b"]: job has dependencies between tasks, but doesn\'t form a directed acyclic graph',
        ),
        (
            {"tasks": [task("a", dependsOn={"name": ["a"]})]},
            'spec.tasks: Invalid value: ["a"]: job has dependencies between tasks',
        ),
        # partitions
        (
            {"tasks": [task(replicas=8, partitionPolicy={"totalPartitions": 3, "partitionSize": 2})]},
            "spec.tasks[0].replicas: Invalid value: 8: 'Replicas' are not equal to TotalPartitions*PartitionSize in task: a",
        ),
        (
            {"tasks": [task(partitionPolicy={"partitionSize": 2})]},
            "spec.tasks[0].partitionPolicy.totalPartitions: Required value",
        ),
        (
            {
                "tasks": [
                    task(
                        replicas=8,
                        minAvailable=5,
                        partitionPolicy={"totalPartitions": 4, "partitionSize": 2, "minPartitions": 2},
                    )
                ]
            },
            "spec.tasks[0].minAvailable: Invalid value: 5: 'MinAvailable' is not equal to MinPartitions*PartitionSize",
        ),
        # templates
        (
            {"tasks": [task(template=template(containers=[]))]},
            "spec.tasks[0].template.spec.containers: Required value",
        ),
        (
            {"tasks": [task(template=template(restartPolicy="Sometimes"))]},
            'spec.tasks[0].template.spec.restartPolicy: Unsupported value: "Sometimes": '
            'supported values: "Always", "OnFailure", "Never"',
        ),
        (
            {"tasks": [task(topologyPolicy="restricted")]},
            'spec.tasks[0].template.spec: Invalid value: "0": the cpu request isn\'t an integer in spec.tasks[0] container[0].',
        ),
        (
            {"tasks": [task("x" * 60)]},
            f'spec.tasks[0].name: Invalid value: "{"x" * 60}": create pod with name job-{"x" * 60}-1 validate failed '
            "[must be no more than 63 bytes]",
        ),
    ],
)
def test_refused(spec: dict[str, Any], expected: str) -> None:
    found = messages(make(**spec))
    assert any(message.startswith(expected) for message in found), found


def test_the_longest_pod_name_counts() -> None:
    # job-<task>-9 is valid and job-<task>-10 is not: found at submission, not after ten pods.
    name = "x" * (63 - len("job--9"))
    assert messages(make(tasks=[task(name, 10)])) == []
    assert messages(make(tasks=[task(name, 11)])) != []


def test_names_of_jobs() -> None:
    assert messages(make("My_Job")) != []
    assert messages(make("")) == ["metadata.name: Required value: name or generateName is required"]


def changed(job: Job, **spec: Any) -> Job:
    new = copy.deepcopy(job)
    new.spec = msgspec.structs.replace(new.spec, **spec)
    return new


def test_allowed_updates() -> None:
    old = make(tasks=[task(replicas=4)], volumes=[{"mountPath": "/a", "volumeClaim": CLAIM}])
    new = changed(old, min_available=1, priority_class_name="high")
    assert new.spec.tasks is not None
    assert new.spec.volumes is not None
    new.spec.tasks[0].replicas, new.spec.tasks[0].min_available = 2, 2
    new.spec.volumes[0].volume_claim_name = "job-pvc-1"
    assert messages(new, old) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"queue": "other"}, "spec: Forbidden: job updates may not change fields other than `minAvailable`"),
        ({"tasks": []}, "spec.tasks: Forbidden: job updates may not add or remove tasks"),
        ({"min_available": 9}, "spec.minAvailable: Invalid value: 9: job 'minAvailable' should not be greater"),
        ({"min_available": -9}, "spec.minAvailable: Invalid value: -9: spec.minAvailable in body should be greater"),
    ],
)
def test_refused_updates(spec: dict[str, Any], expected: str) -> None:
    old = make()
    found = messages(changed(old, **spec), old)
    assert any(message.startswith(expected) for message in found), found


def test_refused_updates_say_what_changed() -> None:
    old = make()
    assert messages(changed(old, queue="other", max_retry=9), old)[0].endswith("changed: queue, maxRetry")


def test_partitioned_tasks_cannot_be_scaled() -> None:
    old = make(tasks=[task(replicas=4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})])
    new = copy.deepcopy(old)
    assert new.spec.tasks is not None
    new.spec.tasks[0].replicas, new.spec.tasks[0].min_available = 2, 2
    new.spec.min_available = 2
    assert "spec.tasks[0].replicas: Forbidden: a task with a partition policy cannot be scaled" in messages(new, old)
