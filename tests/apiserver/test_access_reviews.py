"""Reviews over HTTP: what is answered, what is refused, and that nothing of it is stored or logged."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.backends import opened, settle
from support.serving import WebClient, serving

RIGHTS, IDENTITY = "authorization.k8s.io/v1", "authentication.k8s.io/v1"


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[WebClient]:
    async with opened() as backend:
        await settle(backend)
        async with serving(backend.service, tmp_path) as client:
            yield client


async def ask(web: WebClient, group: str, kind: str, spec: Any, *, namespace: str = "", **options: Any) -> Any:
    plural = f"{kind.lower()}s"
    where = f"namespaces/{namespace}/" if namespace else ""
    body = {"apiVersion": group, "kind": kind, "spec": spec}
    return await web.post(f"/apis/{group}/{where}{plural}", body, **options)


PODS = {"namespace": "default", "verb": "list", "resource": "pods"}
WRONG = [
    ("SelfSubjectAccessReview", {}, "", 422, "exactly one of nonResourceAttributes or resourceAttributes"),
    (
        "SelfSubjectAccessReview",
        {"resourceAttributes": PODS, "nonResourceAttributes": {"path": "/", "verb": "get"}},
        "",
        422,
        "cannot be specified in combination with resourceAttributes",
    ),
    ("SubjectAccessReview", {"resourceAttributes": PODS}, "", 422, "at least one of user or group must be specified"),
    (
        "LocalSubjectAccessReview",
        {"user": "bob", "resourceAttributes": {**PODS, "namespace": "other"}},
        "default",
        422,
        "must match metadata.namespace",
    ),
    ("LocalSubjectAccessReview", {"user": "bob", "resourceAttributes": PODS}, "", 400, "namespace is required"),
    ("SelfSubjectRulesReview", {}, "", 400, "no namespace on request"),
    ("SubjectAccessReview", {"user": 5, "resourceAttributes": PODS}, "", 422, "must be of type string"),
    ("SubjectAccessReview", [], "", 422, "must be of type object"),
]


@pytest.mark.parametrize(("kind", "spec", "namespace", "code", "message"), WRONG)
async def test_questions_that_make_no_sense(
    web: WebClient, kind: str, spec: Any, namespace: str, code: int, message: str
) -> None:
    reply = await ask(web, RIGHTS, kind, spec, namespace=namespace)
    assert (reply.status, message in reply.json()["message"]) == (code, True), reply.body


async def test_a_review_is_only_created(web: WebClient) -> None:
    path = f"/apis/{RIGHTS}/selfsubjectaccessreviews"
    for method, where in (("GET", path), ("DELETE", path), ("GET", f"{path}/x"), ("PUT", f"{path}/x")):
        assert (await web.call(method, where)).status == 405
    reply = await ask(web, RIGHTS, "SelfSubjectAccessReview", {"resourceAttributes": PODS})
    assert (reply.status, reply.json()["status"]) == (201, {"allowed": True})
    listed = (await web.get(f"/apis/{RIGHTS}")).json()["resources"]
    assert {tuple(one["verbs"]) for one in listed} == {("create",)}


async def test_everybody_who_is_known_asks_about_himself_only(web: WebClient) -> None:
    bob = {"Impersonate-User": "bob"}
    reply = await ask(web, RIGHTS, "SelfSubjectAccessReview", {"resourceAttributes": PODS}, headers=bob)
    assert (reply.status, reply.json()["status"]["allowed"]) == (201, False)
    reply = await ask(web, RIGHTS, "SelfSubjectRulesReview", {"namespace": "default"}, headers=bob)
    rules = reply.json()["status"]["resourceRules"]
    assert {"verbs": ["get", "list", "watch"], "apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"]} in rules
    calendar = {"apiGroups": ["calendar.unisono.io"], "resources": ["reservations", "temporaryquotas"]}
    assert {"verbs": ["get", "list", "watch"], **calendar} in rules
    for group, kind, spec in (
        (RIGHTS, "SubjectAccessReview", {"user": "eve", "resourceAttributes": PODS}),
        (IDENTITY, "TokenReview", {"token": "x"}),
    ):
        assert (await ask(web, group, kind, spec, headers=bob)).status == 403


async def test_contents_of_secrets_never_reach_a_log(web: WebClient, capsys: pytest.CaptureFixture[str]) -> None:
    text = base64.b64encode(b"correct horse battery staple").decode()
    path = "/api/v1/namespaces/default/secrets"
    good = {"metadata": {"name": "s"}, "data": {"key": text}}
    assert (await web.post(path, good)).status == 201
    assert (await web.post(path, good)).status == 409
    bad = {"metadata": {"name": "t"}, "data": {"key": text + "!"}, "stringData": {"other": [text]}}
    assert (await web.post(path, bad)).status == 422
    assert (await web.post(path, b'{"data": {"key": "' + text.encode())).status == 400
    out, err = capsys.readouterr()
    assert text not in out + err
