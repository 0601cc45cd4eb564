"""A new Job waits for one review: its seal tells the server that it was checked, as long as it is as it was then."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from support.memory import MemoryClient
from support.virtual_clock import VirtualClock
from unisono.api.annotations import CHECKED, USER
from unisono.api.base import ObjectMeta
from unisono.api.decode import decode
from unisono.api.documents import apply_json_patch
from unisono.api.groups.scheduling import Queue
from unisono.api.keys import POD_QUEUE
from unisono.api.kinds import JOBS, QUEUES
from unisono.api.seal import seal_of
from unisono.apiserver.custom import rules
from unisono.install.admission import webhooks
from unisono.install.workloads import InstallOptions
from unisono.webhook.server import WebhookServer

PLAIN = {"replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}


def job(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns"},
        "spec": {"tasks": [copy.deepcopy(PLAIN)]} | spec,
    }


async def answered(path: str, value: dict[str, Any], operation: str = "CREATE") -> dict[str, Any]:
    """The response of a webhook that knows the queue ``default``."""
    client: Any = MemoryClient(VirtualClock())
    await client.create(QUEUES, Queue(metadata=ObjectMeta(name="default")))
    server = WebhookServer(
        client, CollectorRegistry(), host="127.0.0.1", port=0, namespace="system", clock=client.clock
    )
    group, _, version = value["apiVersion"].rpartition("/")
    asked = {
        "uid": "u1",
        "kind": {"group": group, "version": version, "kind": "Job"},
        "name": "j",
        "namespace": "ns",
        "operation": operation,
        "object": value,
        "oldObject": value if operation == "UPDATE" else None,
        "userInfo": {"username": "ann", "groups": ["staff"]},
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    request: Any = make_mocked_request("POST", f"/{path}")
    request._read_bytes = json.dumps(review).encode()
    answer = await getattr(server, f"_{path}")(request)
    response: dict[str, Any] = json.loads(answer.body)["response"]
    return response


async def stored(value: dict[str, Any]) -> dict[str, Any]:
    response = await answered("mutate", value)
    assert response["allowed"], response
    found: dict[str, Any] = apply_json_patch(copy.deepcopy(value), json.loads(base64.b64decode(response["patch"])))
    return found


def asked_again(value: dict[str, Any], operation: str = "CREATE", resource: str = "jobs") -> bool:
    """Whether the server shows the object to the webhook that checks gangs."""
    checking = next(one for one in webhooks(InstallOptions()) if one["kind"].startswith("Validating"))
    gangs = next(hook for hook in checking["webhooks"] if hook["name"].startswith("gangs"))
    variables = {
        "object": value,
        "oldObject": None if operation == "CREATE" else value,
        "request": {
            "operation": operation,
            "resource": {"resource": resource},
            "userInfo": {"username": "ann", "groups": ["staff"]},
        },
    }
    conditions = [one for one in gangs["matchConditions"] if one["name"] != "changed"]
    return all(rules.holds(one["expression"], variables, rules.budget()) for one in conditions)


def test_no_new_job_escapes_the_review_that_seals_it() -> None:
    (mutating,) = (one for one in webhooks(InstallOptions()) if one["kind"].startswith("Mutating"))
    (hook,) = (
        hook
        for hook in mutating["webhooks"]
        for rule in hook["rules"]
        if JOBS.plural in rule["resources"] and JOBS.group in rule["apiGroups"] and "CREATE" in rule["operations"]
    )
    assert not {"matchConditions", "objectSelector", "namespaceSelector"} & hook.keys()
    assert hook["failurePolicy"] == "Fail"
    assert hook["rules"][0]["apiVersions"] == ["v1alpha1", "v1beta1"]


async def test_a_new_job_is_checked_where_it_is_completed_and_not_asked_about_again() -> None:
    whole = await stored(job())
    assert whole["spec"]["minAvailable"] == 2
    assert whole["metadata"]["annotations"][CHECKED] == "default |  | ann | 2"
    assert not asked_again(whole)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (job(queue="no-such-queue"), 'queue.scheduling.volcano.sh "no-such-queue" not found'),
        (job(minAvailable=7), "minAvailable"),
        (job(tasks="none"), "spec.tasks"),
        (job(tasks=[PLAIN | {"replicas": 10_000_000}]), "more than the limit"),
    ],
    ids=["rule about others", "rule", "type", "size"],
)
async def test_a_bad_new_job_is_refused_there(value: dict[str, Any], words: str) -> None:
    refused = await answered("mutate", value)
    assert not refused["allowed"]
    assert "patch" not in refused
    assert refused["uid"] == "u1"
    assert words in refused["status"]["message"]
    checked = await answered("validate", value)
    assert (checked["allowed"], checked["status"]) == (False, refused["status"]), "in the same words"


async def test_a_forged_seal_is_written_over() -> None:
    value = job(tasks=[PLAIN | {"replicas": 3}])
    value["metadata"]["annotations"] = {CHECKED: "another |  | eve | 3", "mine": "stays"}
    whole = await stored(value)
    assert whole["metadata"]["annotations"] == {CHECKED: "default |  | ann | 3", "mine": "stays", USER: "ann"}


def changed(value: dict[str, Any], where: tuple[Any, ...], to: Any) -> dict[str, Any]:
    found = copy.deepcopy(value)
    at = found
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = to
    return found


@pytest.mark.parametrize(
    ("where", "to"),
    [
        (("spec", "queue"), "another"),
        (("spec", "tasks", 0, "replicas"), 20),
        (("spec", "tasks"), [PLAIN, PLAIN]),
        (("metadata", "annotations", USER), "eve"),
        (("metadata", "annotations", POD_QUEUE), "another"),
        (("metadata", "annotations", CHECKED), "what else"),
        (("metadata", "annotations"), {}),
    ],
    ids=["queue", "replicas", "tasks", "user", "queue of its pods", "seal", "without"],
)
async def test_what_another_webhook_changes_afterwards_is_asked_about(where: tuple[Any, ...], to: Any) -> None:
    assert asked_again(changed(await stored(job()), where, to))


async def test_changes_and_other_kinds_are_always_asked_about() -> None:
    whole = await stored(job())
    assert asked_again(whole, "UPDATE")
    assert asked_again(whole, resource="podgroups")
    response = await answered("mutate", job(minAvailable=7), "UPDATE")
    assert response["allowed"], "the other review refuses it"


texts = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)
tasks = st.fixed_dictionaries({}, optional={"replicas": st.integers(0, 2**31 - 1), "name": texts})
notes = st.dictionaries(st.sampled_from((POD_QUEUE, USER, "other")), texts)


@given(texts, notes, st.lists(tasks, max_size=4) | st.none())
def test_the_server_reads_what_the_webhook_wrote(
    queue: str, annotations: dict[str, str], listed: list[dict[str, Any]] | None
) -> None:
    value = job(queue=queue, tasks=listed)
    if listed is None:
        del value["spec"]["tasks"]
    value["metadata"]["annotations"] = annotations
    assert asked_again(value)
    annotations[CHECKED] = seal_of(decode(JOBS, copy.deepcopy(value)).obj)
    assert not asked_again(value)
