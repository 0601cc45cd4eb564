"""Webhooks see what is answered and never stored: reviews, requests for tokens, and commands in pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.backends import opened, settle
from support.hooks import Document, Hooks, configure, patched, refused, webhook
from support.serving import WebClient, serving
from unisono.api.kinds import PODS
from unisono.apiserver.nodes import ContainerTarget, Wanted
from unisono.apiserver.types import WriteOptions
from unisono.errors import AgentError

RIGHTS, IDENTITY = "/apis/authorization.k8s.io/v1/", "/apis/authentication.k8s.io/v1/"
POD = "/api/v1/namespaces/default/pods/p/"
TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"
UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": "v4.channel.k8s.io"}
QUESTION = {"spec": {"user": "eve", "resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}}}


class Access:
    """A node that remembers what it is asked and can do nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    async def exec(self, target: ContainerTarget, command: list[str], wanted: Wanted) -> Any:
        self.asked.append((target.container, command, wanted))
        raise AgentError("nothing runs here")

    async def attach(self, target: ContainerTarget, wanted: Wanted) -> Any:
        self.asked.append((target.container, wanted))
        raise AgentError("nothing runs here")

    async def connect(self, target: ContainerTarget, port: int) -> Any:
        raise AgentError("nothing runs here")


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


@pytest.fixture
def access() -> Access:
    return Access()


@pytest.fixture
async def world(hooks: Hooks, access: Access, tmp_path: Path) -> AsyncIterator[tuple[Any, WebClient]]:
    async with opened() as backend:
        await settle(backend)
        backend.service.hooks.caller = hooks
        spec = {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}], "nodeName": "n1"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        await backend.service.create(PODS, "default", pod, WriteOptions())
        async with serving(backend.service, tmp_path, pod_access=access) as web:
            yield backend, web


def entry_of(answer: Document) -> Document:
    (entry,) = answer["metadata"]["managedFields"]
    return dict(entry)


async def enter(web: WebClient, path: str) -> Any:
    return await web.get(POD + path, headers=UPGRADE)


async def test_a_command_is_shown_with_its_options(world: tuple[Any, WebClient], hooks: Hooks, access: Access) -> None:
    backend, web = world
    await configure(backend, webhook("sees", "pods/exec"))
    await enter(web, "exec?command=ls&command=-l&container=c&stdin=false&stdout=1&tty=true")
    ((_, request),) = hooks.asked
    assert (request["operation"], request["name"], request["namespace"]) == ("CONNECT", "p", "default")
    assert request["kind"] == {"group": "", "version": "v1", "kind": "PodExecOptions"}
    assert (request["resource"]["resource"], request["subResource"]) == ("pods", "exec")
    assert (request["oldObject"], request["options"], request["dryRun"]) == (None, None, False)
    assert request["object"] == {
        "apiVersion": "v1",
        "kind": "PodExecOptions",
        "command": ["ls", "-l"],
        "container": "c",
        "stdout": True,
        "tty": True,
    }
    assert request["userInfo"]["username"] == "unisono-admin"
    assert access.asked == [("c", ["ls", "-l"], Wanted(stdin=False, stdout=True, stderr=False, tty=True))]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("attach?container=d&stdin=1", {"kind": "PodAttachOptions", "container": "d", "stdin": True}),
        ("portforward?ports=80&ports=81", {"kind": "PodPortForwardOptions", "ports": [80, 81]}),
        ("portforward", {"kind": "PodPortForwardOptions"}),
    ],
)
async def test_other_ways_into_a_pod(world: tuple[Any, WebClient], hooks: Hooks, path: str, shown: Document) -> None:
    backend, web = world
    await configure(backend, webhook("sees", "pods/attach", "pods/portforward"))
    hooks.replies["sees"] = refused
    reply = await enter(web, path)
    assert (reply.status, reply.json()["message"].endswith("not today")) == (403, True)
    assert [request["object"] for _, request in hooks.asked] == [{"apiVersion": "v1", **shown}]


async def test_nobody_gets_in_whom_a_webhook_refuses(
    world: tuple[Any, WebClient], hooks: Hooks, access: Access
) -> None:
    backend, web = world
    await configure(backend, webhook("sees", "pods/*"))
    hooks.replies["sees"] = refused
    reply = await enter(web, "exec?command=ls&container=c&stdout=1")
    assert (reply.status, access.asked) == (403, [])


async def test_labels_select_no_command(world: tuple[Any, WebClient], hooks: Hooks) -> None:
    backend, web = world
    absent = {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}
    await configure(
        backend,
        webhook("labels", "pods/exec", objectSelector=absent),
        webhook("all", "pods/exec", objectSelector={}),
    )
    await enter(web, "exec?command=ls&container=c&stdout=1")
    assert hooks.names() == ["all"]


async def test_a_webhook_changes_what_runs(world: tuple[Any, WebClient], hooks: Hooks, access: Access) -> None:
    backend, web = world
    await configure(backend, webhook("changes", "pods/exec"), changing=True)
    change = [
        {"op": "add", "path": "/command", "value": ["audited", "ls"]},
        {"op": "replace", "path": "/container", "value": "d"},
    ]
    hooks.replies["changes"] = patched(*change)
    await enter(web, "exec?command=ls&container=c&stdout=1")
    assert [(container, command) for container, command, _ in access.asked] == [("d", ["audited", "ls"])]
    hooks.replies["changes"] = patched({"op": "add", "path": "/command", "value": "ls"})
    reply = await enter(web, "exec?command=ls&container=c&stdout=1")
    assert (reply.status, "command" in reply.json()["message"], len(access.asked)) == (500, True, 1)


async def test_a_question_about_rights_is_shown_and_may_be_changed(world: tuple[Any, WebClient], hooks: Hooks) -> None:
    backend, web = world
    everybody = {"op": "add", "path": "/spec/groups", "value": ["system:masters"]}
    await configure(backend, webhook("changes", "subjectaccessreviews"), changing=True)
    await configure(backend, webhook("sees", "*"))
    hooks.replies["changes"] = patched(everybody)
    hooks.replies["sees"] = lambda _: {"allowed": True, "warnings": ["beware"]}
    reply = await web.post(RIGHTS + "subjectaccessreviews", QUESTION)
    assert (reply.status, reply.json()["status"]["allowed"]) == (201, True)
    assert '"beware"' in reply.headers["Warning"]
    assert hooks.names() == ["changes", "sees"]
    request = hooks.asked[1][1]
    assert (request["operation"], request["name"]) == ("CREATE", "")
    assert request["kind"] == {"group": "authorization.k8s.io", "version": "v1", "kind": "SubjectAccessReview"}
    assert request["object"]["spec"] == {**QUESTION["spec"], "groups": ["system:masters"]}


async def test_a_refused_review_is_not_answered(world: tuple[Any, WebClient], hooks: Hooks) -> None:
    backend, web = world
    await configure(backend, webhook("sees", "tokenreviews"))
    hooks.replies["sees"] = refused
    reply = await web.post(IDENTITY + "tokenreviews", {"spec": {"token": web.token}})
    assert (reply.status, "status" in reply.json()) == (403, True)
    assert "user" not in reply.json()


async def test_a_request_for_a_token_is_shown_below_its_account(world: tuple[Any, WebClient], hooks: Hooks) -> None:
    backend, web = world
    await configure(backend, webhook("sees", "serviceaccounts/token"))
    assert (await web.post(TOKEN, {"spec": {"expirationSeconds": 700}})).status == 201
    ((_, request),) = hooks.asked
    assert request["kind"] == {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}
    assert (request["resource"]["resource"], request["subResource"]) == ("serviceaccounts", "token")
    assert (request["name"], request["object"]["spec"]) == ("default", {"expirationSeconds": 700})
    hooks.replies["sees"] = refused
    assert (await web.post(TOKEN, {})).status == 403


async def test_answers_have_the_metadata_that_a_real_server_gives(world: tuple[Any, WebClient]) -> None:
    _, web = world
    by_test = {"User-Agent": "test/1"}
    answered = {**QUESTION, "status": {"allowed": True, "reason": "mine"}}
    review = (await web.post(RIGHTS + "subjectaccessreviews", answered, headers=by_test)).json()
    assert review["status"] == {"allowed": False}
    assert set(entry_of(review)["fieldsV1"]) == {"f:spec"}
    entry = entry_of(review)
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("test", "Update", "authorization.k8s.io/v1")
    assert set(entry["fieldsV1"]["f:spec"]) == {"f:user", "f:resourceAttributes"}
    rules = (await web.post(RIGHTS + "selfsubjectrulesreviews", {"spec": {"namespace": "default"}})).json()
    assert not rules.get("spec")
    myself = (await web.post(IDENTITY + "selfsubjectreviews", {}, headers=by_test)).json()
    assert set(myself["metadata"]) == {"creationTimestamp"}
    token = (await web.post(TOKEN, {"spec": {"expirationSeconds": 700}}, headers=by_test)).json()
    entry = entry_of(token)
    assert (entry["manager"], entry["subresource"]) == ("test", "token")
    assert entry["fieldsV1"] == {"f:spec": {"f:expirationSeconds": {}}}
    assert token["metadata"]["uid"]
