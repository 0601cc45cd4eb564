"""Fixes as requests: what they change in manifests, and how they are sent."""

from __future__ import annotations

import copy
import shlex
from typing import Any

import pytest

from unisono.api import pod_edits
from unisono.api.kinds import JOBS, QUEUES
from unisono.jobkinds.kind import NoSuchField
from unisono.sdk.fixes import of_objects, pod_specs
from unisono.sdk.fixes.change_texts import change_text
from unisono.sdk.fixes.edits import all_of, edit_of
from unisono.sdk.fixes.fix import Operation
from unisono.sdk.fixes.operations import changed


def job(kind: str = "Job", api: str = "batch.volcano.sh/v1alpha1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "train", "namespace": "ns"}, "spec": spec}


def pod(**requests: str) -> dict[str, Any]:
    return {"containers": [{"name": "main", "resources": {"requests": dict(requests), "limits": dict(requests)}}]}


def task(spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "worker", "replicas": 4, "template": {"spec": spec}, **more}


LOWER = {"kind": "LowerMinAvailable", "to": 2}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
EDITS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (
        {"kind": "UseClaim", "of": "PersistentVolumeClaim", "name": "a", "instead": "b"},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "a"}}]},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "b"}}]},
    ),
    (
        {"kind": "UseClaim", "of": "ResourceClaim", "name": "a", "instead": "b"},
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "a"}, {"name": "x", "resourceClaimName": "c"}]},
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "b"}, {"name": "x", "resourceClaimName": "c"}]},
    ),
    (
        {"kind": "UseStorageClass", "storage_class": "fast"},
        {"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fats"}}}}]},
        {"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}}]},
    ),
    (
        {"kind": "UseLabel", "key": "zone", "value": "a", "instead_key": "zone", "instead_value": "b"},
        {"nodeSelector": {"zone": "a", "disk": "ssd"}},
        {"nodeSelector": {"zone": "b", "disk": "ssd"}},
    ),
    (
        {"kind": "AddToleration", "key": "spot", "effect": "NoSchedule", "value": ""},
        {},
        {"tolerations": [{"key": "spot", "effect": "NoSchedule", "operator": "Exists"}]},
    ),
    (
        {"kind": "AddToleration", "key": "spot", "effect": "NoSchedule", "value": "yes"},
        {"tolerations": [{"key": "spot", "operator": "Exists"}]},
        {"tolerations": [{"key": "spot", "operator": "Exists"}]},
    ),
    (
        {"kind": "AddToleration", "key": "spot", "effect": "NoSchedule", "value": "yes"},
        {"tolerations": [{"key": "spot", "value": "no"}]},
        {
            "tolerations": [
                {"key": "spot", "value": "no"},
                {"key": "spot", "effect": "NoSchedule", "operator": "Equal", "value": "yes"},
            ]
        },
    ),
    (
        {"kind": "RelaxRule", "rule": "podAntiAffinity"},
        {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "host"}]}}},
        {
            "affinity": {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 100, "podAffinityTerm": {"topologyKey": "host"}}
                    ]
                }
            }
        },
    ),
    ({"kind": "RelaxRule", "rule": "nodeSelector"}, {"nodeSelector": {"zone": "a"}}, {}),
    ({"kind": "SetPodField", "field": "schedulingGates", "value": None}, {"schedulingGates": [{"name": "wait"}]}, {}),
    ({"kind": "SetPodField", "field": "schedulerName", "value": "volcano"}, {}, {"schedulerName": "volcano"}),
]


@pytest.mark.parametrize(("change", "before", "after"), EDITS)
def test_a_change_of_pods_reaches_each_template(
    change: dict[str, Any], before: dict[str, Any], after: dict[str, Any]
) -> None:
    edit = edit_of(change)
    assert edit is not None
    manifest = job(minAvailable=2, tasks=[task(pod() | copy.deepcopy(before)), task(pod() | copy.deepcopy(before))])
    edit(manifest)
    assert manifest == job(minAvailable=2, tasks=[task(pod() | after), task(pod() | after)])


def test_changes_of_other_objects_edit_no_job_and_many_changes_are_one_edit() -> None:
    others = [{"kind": kind} for kind in ("RaiseCapability", "Uncordon", "EvictPods", "WaitFor", "AddNodes")]
    assert [edit_of(change) for change in others] == [None] * len(others)
    manifest = job(minAvailable=4, tasks=[task(pod())])
    all_of([{"kind": "LowerMinAvailable", "to": 2}, {"kind": "UseQueue", "queue": "research"}, *others])(manifest)
    assert (manifest["spec"]["minAvailable"], manifest["spec"]["queue"]) == (2, "research")


@pytest.mark.parametrize(
    ("given_job", "path", "value"),
    [
        (job(minAvailable=4, tasks=[task(pod())]), ("minAvailable",), 2),
        (job("PyTorchJob", "kubeflow.org/v1"), ("runPolicy", "schedulingPolicy", "minAvailable"), 2),
        (job("PodGroup", "scheduling.volcano.sh/v1beta1", minMember=4), ("minMember",), 2),
        (
            job("RayCluster", "ray.io/v1", workerGroupSpecs=[{"replicas": 3, "minReplicas": 3}]),
            ("workerGroupSpecs", 0, "replicas"),
            1,
        ),
    ],
)
def test_a_smaller_gang(given_job: dict[str, Any], path: tuple[Any, ...], value: int) -> None:
    all_of([LOWER])(given_job)
    at: Any = given_job["spec"]
    for name in path:
        at = at[name]
    assert at == value


def test_a_kind_whose_gang_is_whole_says_so() -> None:
    with pytest.raises(NoSuchField, match="JobSet starts with all its pods"):
        all_of([LOWER])(job("JobSet", "jobset.x-k8s.io/v1alpha2"))


@pytest.mark.parametrize(
    ("own", "verb", "paths"),
    [
        ({}, "patch", ["/spec/priorityClassName"]),
        (
            {"priorityClassName": "low"},
            "replace",
            ["/spec/priorityClassName", "/spec/tasks/0/template/spec/priorityClassName"],
        ),
    ],
)
def test_a_priority_that_pods_take_from_their_job_is_patched(own: dict[str, Any], verb: str, paths: list[str]) -> None:
    """It stays where it is in line, and what it was promised; only pods with a class of their own are made again."""
    owner = job(minAvailable=4, tasks=[task(pod(cpu="8") | own)])
    (request,) = changed(owner, all_of([{"kind": "UsePriority", "priority_class": "urgent"}]))
    assert (request.verb, sorted(one["path"] for one in request.body)) == (verb, paths)


def test_the_gang_may_be_patched_and_the_template_may_not() -> None:
    whole = job(minAvailable=4, tasks=[task(pod(cpu="8"))])
    (smaller,) = changed(whole, all_of([LOWER]))
    assert (smaller.verb, smaller.body) == ("patch", [{"op": "replace", "path": "/spec/minAvailable", "value": 2}])
    less = pod_specs.each_pod(lambda spec: pod_edits.request_at_most(spec, {"cpu": 4000}))
    (other,) = changed(whole, less)
    assert other.verb == "replace"
    assert {one["value"] for one in other.body} == {"4"}
    assert "--dry-run=client -o json | kubectl replace --force -f -" in other.kubectl()


def container(amount: str, name: str = "cpu", **more: str) -> dict[str, Any]:
    return {"resources": {"requests": {name: amount}}, **more}


SIDECAR = {"restartPolicy": "Always"}
GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("spec", "name", "most", "left"),
    [
        ({"containers": [container("1"), container("6"), container("3")]}, "cpu", 5000, ["1", "2", "2"]),
        ({"containers": [container("1"), container("6")]}, "cpu", 5000, ["1", "4"]),
        ({"containers": [container("4", GPU), container("4", GPU)]}, GPU, 4000, ["2", "2"]),
        ({"containers": [container("4", GPU), container("4", GPU)]}, GPU, 5000, ["2", "2"]),
        ({"containers": [container("2", GPU), container("2", GPU)]}, GPU, 1000, ["2", "2"]),  # none goes without
        ({"containers": [container("8")], "initContainers": [container("1", **SIDECAR)]}, "cpu", 8000, ["7", "1"]),
        ({"containers": [container("2")], "initContainers": [container("16")]}, "cpu", 8000, ["2", "8"]),
        (
            {"containers": [container("2")], "initContainers": [container("3", **SIDECAR), container("6")]},
            "cpu",
            8000,
            ["2", "3", "5"],
        ),
        ({"containers": [container("8")], "overhead": {"cpu": "250m"}}, "cpu", 8000, ["7750m"]),
        ({"containers": [container("8")], "overhead": {"cpu": "9"}}, "cpu", 8000, ["8"]),
    ],
)
def test_requests_shrink_to_what_the_whole_pod_may_ask_for(
    spec: dict[str, Any], name: str, most: int, left: list[str]
) -> None:
    pod_edits.request_at_most(spec, {name: most})
    every = [*spec["containers"], *spec.get("initContainers", [])]
    assert [one["resources"]["requests"][name] for one in every] == left


def test_an_overhead_of_more_than_the_whole_pod_may_ask_for_becomes_the_rest() -> None:
    """A trial sees what the smaller RuntimeClass will add."""
    spec = {**pod(cpu="2"), "overhead": {"cpu": "40"}}
    pod_edits.request_at_most(spec, {"cpu": 8000})
    assert spec["overhead"] == {"cpu": "6"}
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "2"}


def test_labels_and_resources_are_replaced_where_they_stand() -> None:
    terms = [{"matchExpressions": [{"key": "zome", "operator": "In", "values": ["a", "b"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {**pod(gpus="1"), "nodeSelector": {"zome": "a"}, "affinity": {"nodeAffinity": required}}
    pod_edits.use_label(spec, "zome", "a", "zone", "a")
    pod_edits.use_resource(spec, "gpus", "gpu")
    assert spec["nodeSelector"] == {"zone": "a"}
    assert terms[0]["matchExpressions"][0] == {"key": "zone", "operator": "In", "values": ["a", "b"]}
    assert spec["containers"][0]["resources"] == {"requests": {"gpu": "1"}, "limits": {"gpu": "1"}}


@pytest.mark.parametrize(
    ("message", "kind", "text"),
    [
        (
            'error looking up service account ns/bot: serviceaccount "bot" not found',
            "create",
            "create service account bot",
        ),
        (
            'serviceaccount "bto" not found (did you mean bot?)',
            "replace",
            "name service account bot in its pods",
        ),
        ("no PriorityClass with name high was found", "create", "create priority class high"),
        (
            "maximum cpu usage per Container is 2, but limit is 8",
            "replace",
            "ask for at most cpu 2 per container",
        ),
        (
            "failed quota: team: must specify limits.memory for: main",
            "replace",
            "state limits.memory in its containers",
        ),
    ],
)
def test_what_the_server_refuses(message: str, kind: str, text: str) -> None:
    refused = job(tasks=[task({**pod(cpu="8"), "serviceAccountName": "bto"})])
    (fix,) = [*of_objects.allowed(refused, message), *of_objects.named(refused, message)]
    assert (fix.text, fix.tried) == (text, False)
    assert [operation.verb for operation in fix.operations] == [kind]


def test_commands_are_quoted_for_a_shell() -> None:
    patch = Operation("patch", QUEUES, "q", body={"spec": {"weight": 2}})
    assert shlex.split(patch.kubectl())[-1] == '{"spec":{"weight":2}}'
    assert Operation("delete", JOBS, "j", "ns").kubectl() == "kubectl delete job.batch.volcano.sh/j -n ns"


def test_changes_in_words() -> None:
    both = {
        "kind": "Together",
        "changes": [{"kind": "OpenQueue", "queue": "q"}, {"kind": "LowerMinAvailable", "to": 2}],
    }
    assert change_text(both) == "open queue q and lower minAvailable to 2"
    assert change_text({"kind": "FromTheFuture", "x": 1}) == "FromTheFuture"


def test_an_annotation_that_pods_take_over_from_the_job_is_changed_there_too() -> None:
    body = job(tasks=[task(pod())])
    body["metadata"]["annotations"] = {"unisono.io/one-of": "a=b", "other": "stays"}
    edit = edit_of({"kind": "AddAnnotation", "key": "unisono.io/one-of", "value": "a=b, a=c"})
    assert edit is not None
    edit(body)
    assert body["metadata"]["annotations"] == {"unisono.io/one-of": "a=b, a=c", "other": "stays"}
    (one,) = body["spec"]["tasks"]
    assert one["template"]["metadata"]["annotations"] == {"unisono.io/one-of": "a=b, a=c"}
