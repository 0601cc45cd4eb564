"""Which fixes are offered where an object names something that nothing has."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from unisono.api.base import ObjectMeta
from unisono.api.messages import closed_queue_in, pod_group_queue_not_found, queue_not_found, queue_not_open
from unisono.errors import ApiError
from unisono.kube.http import HttpClient
from unisono.sdk.fixes.of_changes import FixMaker
from unisono.sdk.reasons.explanation import Explanation
from unisono.sdk.reasons.offered import offer_fixes
from unisono.sdk.reasons.refusal_causes import meant_in, with_meant_names
from unisono.sdk.state.bound_pods import WaitingContainer
from unisono.sdk.state.waiting import SCHEDULER, Misnamed, UnboundPod

JOB = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "ns"},
    "spec": {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": {"containers": []}}}]},
}


class Named:
    """A client whose lists have objects of these names; None: it may not list."""

    def __init__(self, *names: str | None) -> None:
        self.names = names

    async def list(self, kind: Any, namespace: str | None) -> Any:
        if None in self.names:
            raise ApiError("no", code=403, reason="Forbidden")
        metas = [type("Meta", (), {"metadata": type("M", (), {"name": name})})() for name in self.names]
        return type("Listing", (), {"items": metas})()


class NoPods:
    """A server on which no pod is."""

    async def list(self, kind: Any, namespace: str | None, *, field_selector: str = "") -> Any:
        return type("Listing", (), {"items": []})()


def offered(**told: Any) -> list[str]:
    explanation = Explanation("Job", "train", "job/train", "its phase is Pending", **told)
    fixes = asyncio.run(offer_fixes(cast("HttpClient", NoPods()), explanation, dict(JOB)))
    return [fix.text for fix in fixes]


def test_an_object_for_another_system_is_taken_back() -> None:
    root = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"managedBy": "x.io/y", "template": {"spec": {"containers": [{"name": "main"}]}}},
    }
    stalled = "spec.managedBy hands it to x.io/y, and no controller here acts on it"
    told = Explanation("Job", "train", "job/train", "it has no pods", stalled=stalled)
    (fix,) = asyncio.run(offer_fixes(cast("HttpClient", NoPods()), told, root))
    assert fix.operations[0].body == [{"op": "remove", "path": "/spec/managedBy"}]


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        (Misnamed(SCHEDULER, "volcno", "volcano"), "volcano"),
        (Misnamed("Queue", "reserch", "research"), "research"),
        (Misnamed("PodGroup", "trian", "train"), "train"),
    ],
)
def test_what_was_meant_is_offered_whatever_the_sentence_says(wrong: Misnamed, part: str) -> None:
    of_pod = offered(pods=[UnboundPod("train-w-0", "", "some words", wrong)])
    assert of_pod and part in of_pod[0]
    assert offered(unseen="other words", misnamed=wrong) == of_pod


def test_words_alone_offer_nothing() -> None:
    says = "no running scheduler serves its schedulerName x; jobs and pods of Unisono say schedulerName: volcano"
    assert offered(pods=[UnboundPod("train-w-0", "", says)]) == []


@pytest.mark.parametrize("text", [queue_not_found("reserch"), pod_group_queue_not_found("reserch")])
def test_the_missing_queue_of_a_refusal_is_known_with_the_one_that_was_meant(text: str) -> None:
    def meant(*names: str | None) -> tuple[str, Misnamed | None]:
        return asyncio.run(meant_in(cast("HttpClient", Named(*names)), text, "ns"))

    assert meant("research", "x") == (f"{text} (did you mean research?)", Misnamed("Queue", "reserch", "research"))
    assert meant("other") == (text, Misnamed("Queue", "reserch"))
    assert meant(None) == (text, Misnamed("Queue", "reserch"))
    assert asyncio.run(meant_in(cast("HttpClient", Named()), "no words", "ns")) == ("no words", None)


def test_a_closed_queue_is_found_in_its_refusal() -> None:
    assert closed_queue_in(f"denied: {queue_not_open('night', 'Closed')}.") == "night"
    assert closed_queue_in(queue_not_found("night")) == ""


FILES = {
    "volumes": [{"name": "c", "configMap": {"name": "confg"}}, {"name": "s", "secret": {"secretName": "creds"}}],
    "containers": [
        {
            "name": "main",
            "image": "train:1",
            "envFrom": [{"configMapRef": {"name": "confg"}}, {"secretRef": {"name": "creds"}}],
            "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "confg", "key": "a"}}}],
        }
    ],
}


@pytest.mark.parametrize(("word", "name", "places"), [("configmap", "confg", 3), ("secret", "creds", 2)])
def test_a_configmap_or_secret_is_named_as_it_was_meant(word: str, name: str, places: int) -> None:
    client = cast("HttpClient", Named("config", "credz"))
    waits = [WaitingContainer("train-w-0", "main", "CreateContainerConfigError", f'{word} "{name}" not found')]
    (told,) = asyncio.run(with_meant_names(client, waits, "ns"))
    near = {"confg": "config", "creds": "credz"}[name]
    assert told.message == f'{word} "{name}" not found (did you mean {near}?)'
    job = {**JOB, "spec": {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": FILES}}]}}
    explanation = Explanation("Job", "train", "job/train", "its phase is Pending", containers=[told])
    (fix,) = asyncio.run(offer_fixes(client, explanation, job))
    (operation,) = fix.operations
    assert [one["value"] for one in operation.body] == [near] * places


def test_names_without_a_near_one_stay_as_they_are() -> None:
    waits = [WaitingContainer("train-w-0", "main", "CreateContainerConfigError", 'secret "other" not found')]
    assert asyncio.run(with_meant_names(cast("HttpClient", Named("creds")), waits, "ns")) == waits
    assert asyncio.run(with_meant_names(cast("HttpClient", Named(None)), waits, "ns")) == waits


KEYED = {
    "volumes": [{"name": "c", "configMap": {"name": "conf", "items": [{"key": "train.yml", "path": "t"}]}}],
    "containers": [
        {
            "name": "main",
            "image": "train:1",
            "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "train.yml"}}},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "other", "key": "train.yml"}}},
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "conf", "key": "train.yml"}}},
            ],
        }
    ],
}


class Keyed:
    """A server that has one object with these keys, or refuses to show it."""

    def __init__(self, *keys: str, refuses: bool = False) -> None:
        self.keys, self.refuses = keys, refuses

    async def get(self, kind: Any, name: str, namespace: str | None = None) -> Any:
        if self.refuses:
            raise ApiError("no", code=403, reason="Forbidden")
        return kind.struct(metadata=ObjectMeta(name=name, namespace=namespace), data=dict.fromkeys(self.keys, ""))


def told_of(client: Keyed, message: str) -> WaitingContainer:
    waits = [WaitingContainer("train-w-0", "main", "CreateContainerConfigError", message)]
    (told,) = asyncio.run(with_meant_names(cast("HttpClient", client), waits, "ns"))
    return told


@pytest.mark.parametrize(
    ("message", "places"),
    [
        ('couldn\'t find key train.yml in ConfigMap "conf"', 2),
        ("couldn't find key train.yml in ConfigMap ns/conf", 2),
        ('configmap "conf" references non-existent key: train.yml', 2),
        ('couldn\'t find key train.yml in Secret "conf"', 1),
    ],
)
def test_a_key_of_a_configmap_or_secret_is_taken_as_it_was_meant(message: str, places: int) -> None:
    told = told_of(Keyed("train.yaml", "eval.json"), message)
    assert told.message == f"{message} (did you mean train.yaml?)"
    job = {**JOB, "spec": {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": KEYED}}]}}
    explanation = Explanation("Job", "train", "job/train", "its phase is Pending", containers=[told])
    (fix,) = asyncio.run(offer_fixes(cast("HttpClient", Keyed()), explanation, job))
    (operation,) = fix.operations
    assert [one["value"] for one in operation.body] == ["train.yaml"] * places


def test_without_a_near_key_those_that_there_are_are_told_where_they_are_few() -> None:
    message = 'couldn\'t find key seed in ConfigMap "conf"'
    assert told_of(Keyed("rate", "steps"), message).message == f"{message} (it has rate, steps)"
    assert told_of(Keyed(*map(str, range(9))), message).message == message
    assert told_of(Keyed("seeds", refuses=True), message).message == message


def test_smaller_requests_beside_other_changes_of_the_pods_are_one_request() -> None:
    container = {"name": "main", "resources": {"requests": {"cpu": "8"}}}
    tasks = [{"name": "w", "replicas": 1, "template": {"spec": {"containers": [container]}}}]
    taint = {"kind": "AddToleration", "key": "dedicated", "value": "ml", "effect": "NoSchedule"}
    changes = [{"kind": "RequestAtMost", "amounts": {"cpu": 4000}}, taint]
    maker = FixMaker(cast("HttpClient", NoPods()), {**JOB, "spec": {"tasks": tasks}}, "ns")
    (operation,) = asyncio.run(maker.fix({"kind": "Together", "changes": changes}, "both")).operations
    assert {step["path"].rpartition("/")[2] for step in operation.body} == {"cpu", "tolerations"}
