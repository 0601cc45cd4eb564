"""The webhook asks the API server whose roles let them use a queue, and whom it takes for a component."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from support.virtual_clock import VirtualClock
from unisono.api.base import ObjectMeta
from unisono.api.core import Namespace
from unisono.api.groups.scheduling import Queue, QueueSpec, QueueStatus
from unisono.api.kinds import NAMESPACES, QUEUES
from unisono.webhook.review import read, refused
from unisono.webhook.server import Objects, WebhookServer


class Reviews:
    """Answers SubjectAccessReviews; ``may`` holds the queues that roles open, None is a server that fails."""

    def __init__(self, may: set[str] | None) -> None:
        self.may, self.asked = may, list[dict[str, Any]]()

    async def request(self, method: str, path: str, *, body: bytes) -> tuple[int, dict[str, str], bytes]:
        assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
        spec = json.loads(body)["spec"]
        self.asked.append(spec)
        if self.may is None:
            return 500, {}, b"{}"
        return 201, {}, json.dumps({"status": {"allowed": spec["resourceAttributes"]["name"] in self.may}}).encode()


def queue(name: str, parent: str, users: str | None) -> Queue:
    notes = {"unisono.io/users": users} if users is not None else {}
    return Queue(
        metadata=ObjectMeta(name=name, annotations=notes),
        spec=QueueSpec(parent=parent),
        status=QueueStatus(state="Open"),
    )


def question(**author: Any) -> Any:
    task = {"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    value = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns"},
        "spec": {"queue": "gold", "tasks": [task]},
    }
    kind = {"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Job"}
    request = {"uid": "u", "kind": kind, "operation": "CREATE", "object": value, "oldObject": None, "userInfo": author}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return read(json.dumps(review).encode())


ALICE = {"username": "alice", "groups": ["ml"]}
COMPONENT = {
    "username": "system:serviceaccount:unisono:unisono-controllers",
    "groups": ["system:serviceaccounts:unisono"],
}


@pytest.mark.parametrize(
    ("author", "may", "asked", "passes"),
    [
        (ALICE, {"gold", "team"}, ["gold", "team"], True),
        (ALICE, {"gold"}, ["gold", "team"], False),
        (ALICE, set(), ["gold"], False),
        (ALICE, None, ["gold"], False),
        ({"username": "bob"}, {"team"}, ["team"], True),
        (COMPONENT, set(), [], True),
        ({"username": "root", "groups": ["system:masters"]}, set(), [], True),
    ],
    ids=["both", "not above", "none", "no answer", "named below", "a component", "a master"],
)
async def test_roles_count_where_a_queue_does_not_name_the_author(
    author: dict[str, Any], may: set[str] | None, asked: list[str], passes: bool
) -> None:
    client: Any = Reviews(may)
    server = WebhookServer(client, CollectorRegistry(), host="", port=0, namespace="unisono")
    queues = [queue("gold", "team", "bob"), queue("team", "root", "carol")]
    view = Objects({QUEUES: queues, NAMESPACES: [Namespace(metadata=ObjectMeta(name="ns"))]}, VirtualClock())
    answer = await server._check(server._seen_as(question(**author)), view)
    assert [each["resourceAttributes"]["name"] for each in client.asked] == asked
    assert all(each["user"] == author["username"] for each in client.asked)
    assert refused(answer) is not passes
