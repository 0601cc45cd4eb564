"""Admission reviews: defaults as a patch, refusals in our words, and silence about what is not ours."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest

from support.virtual_clock import VirtualClock
from unisono.api.annotations import APART, NEAR, SPREAD
from unisono.api.base import ObjectMeta
from unisono.api.core import Namespace
from unisono.api.documents import apply_json_patch
from unisono.api.groups.scheduling import Queue, QueueSpec, QueueStatus
from unisono.api.groups.topology import HyperNode, HyperNodeSpec
from unisono.api.kinds import HYPER_NODES, NAMESPACES, QUEUES
from unisono.apiserver.admission import Settings
from unisono.webhook.review import BadReview, Question, check, completed, patching, read
from unisono.webhook.server import Objects

TASK = {"replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}


def mutate(question: Question, seen: Objects) -> dict[str, Any]:
    return patching(question, completed(question, seen))


def queue(name: str, state: str = "Open", **spec: Any) -> Queue:
    return Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(**spec), status=QueueStatus(state=state))


def view(*queues: Queue) -> Objects:
    notes = {"scheduling.volcano.sh/queue-name": "team"}
    space = Namespace(metadata=ObjectMeta(name="ns", annotations=notes))
    return Objects({QUEUES: list(queues), NAMESPACES: [space]}, VirtualClock())


def ask(value: dict[str, Any] | None, old: dict[str, Any] | None = None, operation: str = "CREATE", **more: Any) -> Any:
    shown = value or old
    assert shown is not None
    group, _, version = shown["apiVersion"].rpartition("/")
    request = {
        "uid": "u1",
        "kind": {"group": group, "version": version, "kind": shown["kind"]},
        "name": shown["metadata"].get("name", ""),
        "namespace": shown["metadata"].get("namespace", ""),
        "operation": operation,
        "object": value,
        "oldObject": old,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | more}
    return read(json.dumps(review).encode())


def job(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns"},
        "spec": {"tasks": [copy.deepcopy(TASK)]} | spec,
    }


def wire_queue(name: str = "q", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def patched(value: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    response = answer["response"]
    assert response["allowed"]
    assert response["uid"] == "u1"
    operations = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    result = apply_json_patch(copy.deepcopy(value), operations)
    assert isinstance(result, dict)
    return result


def test_a_job_gets_its_defaults_and_keeps_what_this_version_does_not_know() -> None:
    value = job(futureField={"a": [1]}) | {"unknown": 1}
    result = patched(value, mutate(ask(value), view()))
    assert result["unknown"] == 1
    assert result["spec"]["futureField"] == {"a": [1]}
    assert result["spec"]["queue"] == "team", "the queue of the namespace"
    assert result["spec"]["schedulerName"] == "volcano"
    assert result["spec"]["minAvailable"] == 2
    assert result["spec"]["tasks"][0]["name"] == "default0"
    assert result["spec"]["tasks"][0]["template"] == TASK["template"]


def test_an_object_with_all_defaults_needs_no_patch() -> None:
    value = job()
    complete = patched(value, mutate(ask(value), view()))
    assert "patch" not in mutate(ask(complete), view())["response"]


def test_an_alias_version_stays_as_it_was_written() -> None:
    value = job() | {"apiVersion": "batch.volcano.sh/v1beta1"}
    assert patched(value, mutate(ask(value), view()))["apiVersion"] == "batch.volcano.sh/v1beta1"


def test_a_pod_group_goes_to_the_queue_of_its_namespace() -> None:
    value = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"minMember": 1},
    }
    assert patched(value, mutate(ask(value), view()))["spec"]["queue"] == "team"


@pytest.mark.parametrize(
    ("what", "question"),
    [
        ("a kind of others", {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}),
        ("a pod", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}),
        ("a job with wrong types", job(minAvailable="many")),
    ],
)
def test_what_is_not_ours_to_complete_is_left_alone(what: str, question: dict[str, Any]) -> None:
    assert "patch" not in mutate(ask(question), view())["response"], what


@pytest.mark.parametrize(
    ("what", "value", "text"),
    [
        (
            "validation",
            job(minAvailable=9),
            "job 'minAvailable' should not be greater than total replicas in tasks (2)",
        ),
        ("an absent queue", job(queue="gone"), 'queue.scheduling.volcano.sh "gone" not found'),
        ("a closed queue", job(queue="closed"), "queue `closed` status is `Closed`"),
        ("a queue with queues below", job(queue="above"), "can only submit job to leaf queue"),
        ("an absent parent", wire_queue(parent="gone"), "failed to get parent queue"),
        (
            "more than the parent has",
            wire_queue(parent="above", capability={"cpu": "9"}),
            "exceeds its ancestor's capability",
        ),
        (
            "a pod's budget",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "annotations": {"volcano.sh/jdb-min-available": "0"}},
                "spec": {"schedulerName": "volcano", "containers": []},
            },
            "must be a positive integer",
        ),
    ],
)
def test_bad_objects_are_refused_with_the_reason(what: str, value: dict[str, Any], text: str) -> None:
    above = queue("above", capability={"cpu": "4"})
    seen = view(queue("default"), queue("closed", "Closed"), above, queue("below", parent="above"))
    response = check(ask(value), seen)["response"]
    assert not response["allowed"], what
    assert text in response["status"]["message"]
    assert response["status"]["code"] in (403, 422)


@pytest.mark.parametrize("notes", [None, 1, "x", [1], {NEAR: 1}, {NEAR: ["a"]}, {APART: {"a": 1}}, {SPREAD: None}])
def test_annotations_within_kinds_of_others_may_be_anything(notes: Any) -> None:
    patch = {"trainingRuntimeSpec": {"template": {"metadata": {"annotations": notes}}}}
    train = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "x"}}
    answer = check(ask({**train, "spec": {"runtimePatches": [patch]}}), view(queue("default")))["response"]
    assert answer["allowed"]


def test_a_replication_controller_without_a_template_is_left_to_the_server() -> None:
    bare = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "x"}, "spec": {}}
    assert check(ask(bare), view(queue("default")))["response"]["allowed"]


def test_good_objects_and_foreign_kinds_are_accepted() -> None:
    seen = view(queue("default"))
    foreign = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    for value in (job(), wire_queue(parent="root", capability={"cpu": "1"}), foreign):
        answer = check(ask(value), seen)["response"]
        assert answer["allowed"], answer
    unnamed = job()
    unnamed["metadata"] = {"generateName": "j-", "namespace": "ns"}
    assert check(ask(unnamed), seen)["response"]["allowed"]


def test_protected_queues_and_parents_stay() -> None:
    seen = view(queue("root"), queue("default", parent="root"), queue("a"), queue("b", parent="a"))
    for name, allowed in (("root", False), ("default", False), ("a", False), ("b", True)):
        answer = check(ask(None, wire_queue(name), "DELETE"), seen)["response"]
        assert answer["allowed"] is allowed, name


def test_an_object_that_is_leaving_may_leave_however_it_looks() -> None:
    value = job(minAvailable=9)
    value["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    question = ask(value, job(minAvailable=9), "UPDATE")
    assert check(question, view())["response"]["allowed"]
    assert "patch" not in mutate(question, view())["response"]


def test_an_old_object_without_defaults_can_be_changed() -> None:
    """What was stored before the webhook ran has no defaults; completing it is no change of the user's."""
    old = job()
    new = patched(old, mutate(ask(old, old, "UPDATE"), view()))
    assert check(ask(new, old, "UPDATE"), view(queue("default")))["response"]["allowed"]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}']
)
def test_what_is_no_review_is_told(body: bytes) -> None:
    with pytest.raises(BadReview):
        read(body)


HUGE = 2**31 - 1


@pytest.mark.parametrize(
    ("kind", "version", "spec"),
    [
        ("Job", "batch.volcano.sh/v1alpha1", {"tasks": [TASK | {"replicas": HUGE}], "minAvailable": 1}),
        ("JobTemplate", "flow.volcano.sh/v1alpha1", {"tasks": [TASK | {"replicas": HUGE}], "minAvailable": 1}),
        ("PodGroup", "scheduling.volcano.sh/v1beta1", {"minMember": HUGE}),
    ],
)
def test_an_object_that_asks_for_too_many_pods_is_refused_unless_it_was_already_and_does_not_grow(
    kind: str, version: str, spec: dict[str, Any]
) -> None:
    value = {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": "ns"}, "spec": spec}
    seen = view(queue("default"), queue("team"))
    response = check(ask(value), seen)["response"]
    assert not response["allowed"]
    assert response["status"]["code"] == 403
    assert "asks for 2147483647 pods, more than the limit of 50000 for one object" in response["status"]["message"]
    labelled = copy.deepcopy(value)
    labelled["metadata"]["labels"] = {"a": "b"}
    assert check(ask(labelled, value, "UPDATE"), seen)["response"]["allowed"]
    assert check(ask(value), seen, Settings(most_pods=HUGE))["response"]["allowed"]


@pytest.mark.parametrize(
    ("replicas", "scaled", "number"),
    [(2, None, 2), (2, 5, 5), (3, 2, 3)],
    ids=["settled at once", "scale came before", "the task was changed"],
)
def test_what_scale_writes_and_the_task_get_one_number(replicas: int, scaled: int | None, number: int) -> None:
    old, new = job(minAvailable=1), job(minAvailable=1)
    new["spec"]["tasks"][0]["replicas"] = replicas
    if scaled is not None:
        new["spec"]["replicas"] = old["spec"]["replicas"] = scaled
    after = patched(new, mutate(ask(new, old, "UPDATE"), view(queue("default"))))
    assert (after["spec"]["replicas"], after["spec"]["tasks"][0]["replicas"]) == (number, number)


ALICE = {"username": "alice", "groups": ["ml"]}


@pytest.mark.parametrize(
    ("users", "may", "allowed"),
    [("alice", False, True), ("group:ml", False, True), ("bob", False, False), ("bob", True, True)],
)
def test_a_queue_is_for_the_users_that_it_names_and_those_with_the_verb(users: str, may: bool, allowed: bool) -> None:
    gold = queue("gold")
    gold.metadata.annotations = {"unisono.io/users": users}
    for value in (job(queue="gold"), training("gold")):
        question = ask(value, userInfo=ALICE)
        answer = check(question, view(gold), may_use=lambda _request, name: may and name == "gold")
        assert answer["response"]["allowed"] is allowed
        if not allowed:
            assert 'queue gold is not for user "alice"' in answer["response"]["status"]["message"]


def training(name: str) -> dict[str, Any]:
    worker = {"replicas": 1, "template": {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}}
    policy = {"schedulingPolicy": {"queue": name}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "t", "namespace": "ns"},
        "spec": {"runPolicy": policy, "pytorchReplicaSpecs": {"Worker": worker}},
    }


@pytest.mark.parametrize(
    ("author", "given", "owned", "noted"),
    [
        (ALICE, None, False, "alice"),
        (ALICE, "bob", False, "alice"),
        ({"username": "system:serviceaccount:kubeflow:operator"}, None, True, None),
        ({"username": "root", "groups": ["system:masters"]}, "bob", False, "bob"),
    ],
    ids=["written down", "not another's", "made by an operator", "masters act for others"],
)
def test_who_submits_a_job_is_written_down(
    author: dict[str, Any], given: str | None, owned: bool, noted: str | None
) -> None:
    value = job()
    value["metadata"]["annotations"] = {"unisono.io/user": given} if given else {}
    if owned:
        owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "t", "uid": "u", "controller": True}
        value["metadata"]["ownerReferences"] = [owner]
    after = patched(value, mutate(ask(value, userInfo=author), view(queue("default"))))
    assert after["metadata"]["annotations"].get("unisono.io/user") == noted


def test_where_gangs_stand_is_checked_and_tiers_that_do_not_exist_are_told() -> None:
    rack = HyperNode(metadata=ObjectMeta(name="a"), spec=HyperNodeSpec(tier=1, tier_name="rack"))
    seen = Objects({QUEUES: [queue("team")], NAMESPACES: [], HYPER_NODES: [rack]}, VirtualClock())
    wrong = job(queue="team")
    wrong["metadata"]["annotations"] = {NEAR: "app=a"}
    answer = check(ask(wrong), seen)["response"]
    assert not answer["allowed"]
    assert "names no domain behind an @" in answer["status"]["message"]
    wrong["metadata"]["annotations"] = {NEAR: "app=a@tier-2"}
    (told,) = check(ask(wrong), seen)["response"]["warnings"]
    assert told.startswith(f'metadata.annotations[{NEAR}]: no HyperNode is of "tier-2"')
    assert told.endswith("there are tier-1, rack")
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "ns"},
        "spec": {"template": {"metadata": {"annotations": {NEAR: "app=a", APART: "app=a@rack"}}, **TASK["template"]}},
    }
    (told,) = check(ask(web), seen)["response"]["warnings"]
    assert told.startswith(f"spec.template.metadata.annotations[{NEAR}]: its pods will not be placed: 'app=a' names no")


def _closed_deployment(queue_name: str) -> dict[str, Any]:
    notes = {"labels": {"a": "b"}, "annotations": {"scheduling.volcano.sh/queue-name": queue_name}}
    template = {"metadata": notes, "spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "volcano"}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "ns"}, "spec": spec}


@pytest.mark.parametrize(("name", "told"), [("shut", True), ("open", False)])
def test_a_closed_queue_is_told_to_those_who_name_it(name: str, told: bool) -> None:
    answer = check(ask(_closed_deployment(name)), view(queue("shut", "Closed"), queue("open"), queue("team")))
    assert answer["response"]["allowed"]
    warnings = answer["response"].get("warnings", [])
    assert any("queue shut is not open (state Closed)" in one for one in warnings) is told
