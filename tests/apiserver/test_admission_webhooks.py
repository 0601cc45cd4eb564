"""Users' webhooks: who is asked, what they may do, and what happens when they do not answer."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from support.hooks import Hooks, Reply, configure, patched
from support.https_hook import https_hook
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.groups.admission_registration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, WebhookClientConfig
from unisono.api.kinds import CONFIG_MAPS, NAMESPACES, PODS, SERVICES
from unisono.api.validation import validate
from unisono.apiserver.access.pki import Authority, utc_now
from unisono.apiserver.admission import View
from unisono.apiserver.backend import Backend
from unisono.apiserver.types import DeleteOptions, WriteOptions
from unisono.apiserver.webhooks.calling import CallError, HttpCaller, NoAnswer
from unisono.errors import ApiError, Conflict, Invalid, NotFound
from unisono.kube.listening import AppListener
from unisono.kube.pace import Circuits

OPTIONS = WriteOptions(user="ann", groups=("devs",))


@pytest.fixture
async def backend() -> Any:
    backend = await Backend.open()
    yield backend
    await backend.close()


@pytest.fixture
def hooks(backend: Backend) -> Hooks:
    hooks = Hooks()
    backend.service.context.hooks.caller = hooks
    return hooks


def hook(name: str = "one", **fields: Any) -> dict[str, Any]:
    rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    return {
        "name": f"{name}.example.com",
        "clientConfig": {"url": f"https://hooks.example.com/{name}"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }


async def create(backend: Backend, name: str = "a", options: WriteOptions = OPTIONS, **metadata: Any) -> dict[str, Any]:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"k": "v"},
    }
    done = await backend.service.create(CONFIG_MAPS, "default", body, options)
    return {**json.loads(done.object), "warnings": done.warnings}


def set_data(key: str, text: str) -> Reply:
    return patched({"op": "add", "path": f"/data/{key}", "value": text})


async def test_a_webhook_sees_the_request_and_lets_it_pass(backend: Backend, hooks: Hooks) -> None:
    await configure(backend, hook())
    hooks.replies["one"] = lambda _: {"allowed": True, "warnings": ["beware"]}
    made = await create(backend)
    assert made["warnings"] == ["beware"]
    ((_, request),) = hooks.asked
    assert (request["operation"], request["name"], request["namespace"]) == ("CREATE", "a", "default")
    assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert request["userInfo"] == {"username": "ann", "groups": ["devs"]}
    assert (request["object"]["data"], request["oldObject"], request["dryRun"]) == ({"k": "v"}, None, False)


async def test_updates_and_deletions_show_what_was_there(backend: Backend, hooks: Hooks) -> None:
    await create(backend)
    await configure(backend, hook())
    await backend.service.patch(CONFIG_MAPS, "default", "a", {"data": {"k": "w"}}, "merge", OPTIONS)
    await backend.service.delete(CONFIG_MAPS, "default", "a", DeleteOptions(user="ann"))
    update, deletion = (request for _, request in hooks.asked)
    assert (update["object"]["data"], update["oldObject"]["data"]) == ({"k": "w"}, {"k": "v"})
    assert (deletion["operation"], deletion["object"], deletion["oldObject"]["data"]) == ("DELETE", None, {"k": "w"})


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        ({"message": "not today", "code": 403}, 403, ": not today"),
        ({"reason": "Quota"}, 400, ": Quota"),
        ({"code": 200}, 400, " without explanation"),
    ],
)
async def test_a_refusal_says_who_refuses_and_why(
    backend: Backend, hooks: Hooks, status: dict[str, Any], code: int, message: str
) -> None:
    await configure(backend, hook())
    hooks.replies["one"] = lambda _: {"allowed": False, "status": status}
    with pytest.raises(ApiError) as refused:
        await create(backend)
    assert refused.value.message == f'admission webhook "one.example.com" denied the request{message}'
    assert refused.value.code == code
    with pytest.raises(NotFound):
        await backend.service.get(CONFIG_MAPS, "default", "a")


async def test_changes_are_made_in_order_and_checked_afterwards(backend: Backend, hooks: Hooks) -> None:
    await configure(backend, hook("first", reinvocationPolicy="IfNeeded"), hook("second"), changing=True)
    await configure(backend, hook("check"))
    hooks.replies = {"first": set_data("first", "1"), "second": set_data("second", "2")}
    made = await create(backend)
    assert made["data"] == {"k": "v", "first": "1", "second": "2"}
    # The first one sees what came after it, and the check sees everything.
    assert hooks.names() == ["first", "second", "first", "check"]
    assert hooks.asked[-1][1]["object"]["data"] == made["data"]


@pytest.mark.parametrize(
    "reply",
    [
        patched({"op": "replace", "path": "/metadata/name", "value": "other"}),
        patched({"op": "add", "path": "/data/bad key", "value": "x"}),
        patched({"op": "remove", "path": "/nothing"}),
        patched({"op": "replace", "path": "/data", "value": 7}),
    ],
)
async def test_a_change_that_makes_no_valid_object_stores_nothing(backend: Backend, hooks: Hooks, reply: Reply) -> None:
    await configure(backend, hook(), changing=True)
    hooks.replies["one"] = reply
    with pytest.raises(ApiError):
        await create(backend)
    with pytest.raises(NotFound):
        await backend.service.get(CONFIG_MAPS, "default", "a")


async def test_what_only_the_server_decides_stays(backend: Backend, hooks: Hooks) -> None:
    await configure(backend, hook(), changing=True)
    hooks.replies["one"] = patched({"op": "replace", "path": "/metadata/uid", "value": "mine"})
    assert (await create(backend))["metadata"]["uid"] != "mine"


def broken(_: dict[str, Any]) -> Any:
    raise CallError("connection refused")


def foreign(_: dict[str, Any]) -> Any:
    return {"uid": "another", "allowed": True}


@pytest.mark.parametrize("reply", [broken, foreign])
@pytest.mark.parametrize("changing", [True, False])
async def test_a_webhook_that_fails_is_passed_over_only_where_it_may_be(
    backend: Backend, hooks: Hooks, reply: Reply, changing: bool
) -> None:
    await configure(backend, hook("must"), changing=changing)
    hooks.replies = {"must": reply, "may": reply}
    with pytest.raises(ApiError, match=r'failed calling webhook "must\.example\.com"') as failed:
        await create(backend)
    assert failed.value.code == 500
    await backend.service.delete(MUTATING_WEBHOOKS if changing else VALIDATING_WEBHOOKS, None, "hooks", DeleteOptions())
    await configure(backend, hook("may", failurePolicy="Ignore"), changing=changing)
    assert (await create(backend))["data"] == {"k": "v"}


RULE = hook()["rules"][0]


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({}, True),
        ({"rules": [{**RULE, "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}, True),
        ({"rules": [{**RULE, "resources": ["*/*"]}]}, True),
        ({"rules": [{**RULE, "resources": ["configmaps/status"]}]}, False),
        ({"rules": [{**RULE, "resources": ["secrets"]}]}, False),
        ({"rules": [{**RULE, "apiGroups": ["apps"]}]}, False),
        ({"rules": [{**RULE, "operations": ["UPDATE", "DELETE"]}]}, False),
        ({"rules": [{**RULE, "scope": "Cluster"}]}, False),
        ({"objectSelector": {"matchLabels": {"watched": "yes"}}}, True),
        ({"objectSelector": {"matchLabels": {"watched": "no"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        (
            {
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}
                    ]
                }
            },
            False,
        ),
    ],
)
async def test_rules_and_selectors_say_who_is_asked(
    backend: Backend, hooks: Hooks, fields: dict[str, Any], asked: bool
) -> None:
    await configure(backend, hook(**fields))
    await create(backend, labels={"watched": "yes"})
    assert bool(hooks.asked) is asked


@pytest.mark.parametrize(
    ("expression", "outcome"),
    [
        ("object.data.k == 'v' && request.operation == 'CREATE'", "asked"),
        ("object.metadata.name != 'a'", "not asked"),
        ("object.spec.nothing == 1", "failed"),
    ],
)
async def test_conditions_say_who_is_asked(backend: Backend, hooks: Hooks, expression: str, outcome: str) -> None:
    await configure(backend, hook(matchConditions=[{"name": "mine", "expression": expression}]))
    if outcome == "failed":
        with pytest.raises(ApiError, match="failed calling webhook"):
            await create(backend)
    else:
        await create(backend)
    assert bool(hooks.asked) is (outcome == "asked")


async def test_nobody_is_asked_about_the_configurations(backend: Backend, hooks: Hooks) -> None:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    await configure(backend, hook(rules=[everything]))
    hooks.replies["one"] = broken
    await configure(backend, name="second")
    await backend.service.delete(VALIDATING_WEBHOOKS, None, "hooks", DeleteOptions())
    assert hooks.asked == []


async def test_a_dry_run_is_shown_as_one(backend: Backend, hooks: Hooks) -> None:
    await configure(backend, hook())
    await create(backend, options=WriteOptions(dry_run=True))
    assert hooks.asked[0][1]["dryRun"] is True


async def test_a_change_is_stored_only_over_what_the_webhook_has_seen(backend: Backend, hooks: Hooks) -> None:
    await create(backend)
    await configure(backend, hook())

    rounds = iter(range(9))

    async def interfere(request: dict[str, Any]) -> dict[str, Any]:
        if request["object"]["data"].get("by") == "first" and next(rounds) < 2:
            change = {"data": {"by": "second"}}
            await backend.service.patch(CONFIG_MAPS, "default", "a", change, "merge", OPTIONS)
        return {"allowed": True}

    hooks.replies["one"] = interfere
    body = json.loads(await backend.service.get(CONFIG_MAPS, "default", "a"))
    with pytest.raises(Conflict):
        await backend.service.update(CONFIG_MAPS, "default", "a", {**body, "data": {"by": "first"}}, OPTIONS)
    found = json.loads(await backend.service.get(CONFIG_MAPS, "default", "a"))
    assert found["data"] == {"k": "v", "by": "second"}
    # A patch is made for whatever is there, so it is tried again.
    change = {"data": {"by": "first"}}
    await backend.service.patch(CONFIG_MAPS, "default", "a", change, "merge", OPTIONS)
    found = json.loads(await backend.service.get(CONFIG_MAPS, "default", "a"))
    assert found["data"] == {"k": "v", "by": "first"}


async def test_a_namespace_is_selected_by_its_own_labels(backend: Backend, hooks: Hooks) -> None:
    rule = {**RULE, "resources": ["namespaces"]}
    await configure(backend, hook(rules=[rule], namespaceSelector={"matchLabels": {"team": "a"}}))
    for name, team in (("one", "a"), ("two", "b")):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}}
        await backend.service.create(NAMESPACES, None, body, OPTIONS)
    assert [request["name"] for _, request in hooks.asked] == ["one"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "short"}, "should be a domain with at least three segments separated by dots"),
        ({"sideEffects": "Some"}, 'Unsupported value: "Some"'),
        ({"admissionReviewVersions": ["v1beta1"]}, "must include at least one of v1"),
        ({"timeoutSeconds": 31}, "the timeout value must be between 1 and 30 seconds"),
        ({"clientConfig": {}}, "exactly one of url or service is required"),
        ({"clientConfig": {"url": "http://x"}}, "'https' is the only allowed URL scheme"),
        ({"clientConfig": {"service": {"name": "s"}}}, "webhooks[0].clientConfig.service.namespace: Required value"),
        (
            {"rules": [{**RULE, "operations": ["READ"]}]},
            'webhooks[0].rules[0].operations[0]: Unsupported value: "READ"',
        ),
        ({"rules": [{**RULE, "resources": []}]}, "webhooks[0].rules[0].resources: Required value"),
        (
            {"matchConditions": [{"name": "a", "expression": "self.data.k == 'v'"}]},
            "webhooks[0].matchConditions[0].expression: Invalid value: \"self.data.k == 'v'\": compilation failed: "
            "undeclared reference to 'self'",
        ),
        (
            {"matchConditions": [{"name": "a", "expression": "true"}, {"name": "b", "expression": "size(object"}]},
            "webhooks[0].matchConditions[1].expression: Invalid value",
        ),
        (
            {"matchConditions": [{"name": f"c{n}", "expression": "true"} for n in range(65)]},
            "webhooks[0].matchConditions: Too many: 65: must have at most 64 items",
        ),
    ],
)
def test_wrong_configurations(fields: dict[str, Any], message: str) -> None:
    kind = VALIDATING_WEBHOOKS
    hooks = [{**hook(), **fields}]
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}, "webhooks": hooks}
    obj = decode(kind, body).obj
    apply_defaults(kind, obj)
    assert any(message in error.message() for error in validate(kind, obj))


async def test_a_wrong_configuration_is_not_stored(backend: Backend) -> None:
    with pytest.raises(Invalid, match="clientConfig"):
        await configure(backend, hook(clientConfig={}))
    with pytest.raises(Invalid, match="undeclared reference to 'self'"):
        await configure(backend, hook(matchConditions=[{"name": "mine", "expression": "self == 1"}]))


def test_a_condition_that_is_stored_already_may_stay() -> None:
    def configuration(name: str) -> Any:
        conditions = [{"name": name, "expression": "self == 1"}]
        return decode(
            VALIDATING_WEBHOOKS, {"metadata": {"name": "x"}, "webhooks": [hook(matchConditions=conditions)]}
        ).obj

    assert validate(VALIDATING_WEBHOOKS, configuration("b"), configuration("a")) == []
    assert validate(VALIDATING_WEBHOOKS, configuration("b")) != []


async def test_a_service_leads_to_a_pod_that_is_ready(backend: Backend, tmp_path: Path) -> None:
    """Over real TLS: the certificate is that of the Service's name, the address that of the pod."""
    authority = Authority(tmp_path, utc_now())

    def answer(review: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": False, "status": {"message": "no"}}

    async with https_hook(authority, "hook.default.svc", "/check", answer) as port:
        await configure(backend)
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "hook"},
            "spec": {"selector": {"app": "hook"}, "ports": [{"port": 443, "targetPort": "https"}]},
        }
        await backend.service.create(SERVICES, "default", service, OPTIONS)
        client = {"service": {"name": "hook", "namespace": "default", "path": "/check"}}
        bundle = base64.b64encode(authority.ca_pem).decode()
        await configure(backend, hook(clientConfig={**client, "caBundle": bundle}), name="real")
        with pytest.raises(ApiError, match="no endpoints available for service default/hook"):
            await create(backend)
        container = {"name": "main", "image": "x", "ports": [{"name": "https", "containerPort": port}]}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "hook", "labels": {"app": "hook"}},
            "spec": {"containers": [container]},
        }
        await backend.service.create(PODS, "default", pod, OPTIONS)
        status = {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
        await backend.service.patch(PODS, "default", "hook", {"status": status}, "merge", OPTIONS, "status")
        with pytest.raises(ApiError, match=r'admission webhook "one\.example\.com" denied the request: no'):
            await create(backend)
    assert isinstance(backend.service.context.hooks.caller, HttpCaller)


async def test_connections_to_a_webhook_are_kept(tmp_path: Path) -> None:
    """A TLS context of its own for each question takes memory and time, and no connection is used twice."""
    authority = Authority(tmp_path, utc_now())
    peers = set()

    async def reply(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.Response(body=await request.read())

    app = web.Application()
    app.router.add_post("/", reply)
    context = authority.server_context(["127.0.0.1"])
    assert isinstance(context, ssl.SSLContext)
    listener = await AppListener.open(app, "127.0.0.1", 0, tls=context)
    caller = HttpCaller()
    bundle = base64.b64encode(authority.ca_pem).decode()
    try:
        for _ in range(3):
            client = WebhookClientConfig(url=f"https://127.0.0.1:{listener.address[1]}/", ca_bundle=bundle)
            await caller.post(client, {}, 60, cast(View, None))
    finally:
        await caller.close()
        await listener.close()
    assert len(peers) == 1


# ---- webhooks that never answer


class Dead:
    """Nothing listens; counts how often it was tried."""

    def __init__(self) -> None:
        self.tries, self.down = 0, True

    async def post(self, client: Any, review: Any, seconds: float, view: Any) -> bytes:
        self.tries += 1
        if self.down:
            raise NoAnswer(f"{client.url}: connection refused")
        answer = {"uid": review["request"]["uid"], "allowed": True}
        return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}).encode()


@pytest.fixture
def dead(backend: Backend) -> tuple[Dead, list[float]]:
    dead, now = Dead(), [0.0]
    hooks = backend.service.context.hooks
    hooks.caller, hooks.circuits = dead, Circuits(lambda: now[0], failures=5, longest=10.0)
    return dead, now


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
async def test_a_webhook_that_never_answers_is_not_asked_for_every_write(
    backend: Backend, dead: tuple[Dead, list[float]], policy: str
) -> None:
    await configure(backend, hook(failurePolicy=policy))
    refused = 0
    for number in range(100):
        try:
            await create(backend, f"a{number}")
        except ApiError as error:
            refused += 1
            told = str(error)
    assert dead[0].tries == 5
    assert refused == (100 if policy == "Fail" else 0)
    if policy == "Fail":
        assert "5 calls in a row got no answer; asked again in 1.0 s" in told


async def test_a_webhook_that_answers_again_is_asked_for_every_write(
    backend: Backend, dead: tuple[Dead, list[float]]
) -> None:
    hooks, now = dead
    await configure(backend, hook(failurePolicy="Ignore"))
    for number in range(10):
        await create(backend, f"a{number}")
    hooks.down = False
    now[0] = 1.5
    for number in range(10):
        await create(backend, f"b{number}")
    assert hooks.tries == 5 + 10


async def test_a_changed_configuration_is_tried_at_once(backend: Backend, dead: tuple[Dead, list[float]]) -> None:
    await configure(backend, hook(failurePolicy="Ignore"))
    for number in range(10):
        await create(backend, f"a{number}")
    await configure(backend, hook("two", failurePolicy="Ignore"), name="more")
    await create(backend, "b")
    assert dead[0].tries == 7


def of_service(name: str, service: str, **fields: Any) -> dict[str, Any]:
    reference = {"name": service, "namespace": "default", "path": "/", "port": 443}
    return hook(**{"name": name, "clientConfig": {"service": reference}, **fields}) | {"name": name}


async def warned(backend: Backend, *each: dict[str, Any]) -> tuple[str, ...]:
    kind = VALIDATING_WEBHOOKS
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "w"}, "webhooks": list(each)}
    done = await backend.service.create(kind, None, body, OPTIONS)
    return tuple(done.warnings)


@pytest.mark.parametrize(
    ("name", "service"),
    [
        ("validatejob.volcano.sh", "volcano-admission-service"),
        ("mutatepod.volcano.sh", "batch-admission-service"),
        ("validator.trainjob.trainer.kubeflow.org", "webhook-service"),
        ("validator.pytorchjob.training-operator.kubeflow.org", "training-operator"),
        ("vjobset.kb.io", "jobset-webhook-service"),
    ],
)
async def test_webhooks_that_do_our_work_are_not_asked_and_their_author_is_told(
    backend: Backend, name: str, service: str
) -> None:
    told = await warned(backend, of_service(name, service))
    assert told == (f"webhook {name} is not asked: this API server has its defaults and rules itself",)
    assert (await create(backend))["warnings"] == []


@pytest.mark.parametrize(
    "name", ["validatejob.example.com", "policy.volcano.sh", "validatejob.volcano.sh.evil", "vpod.kb.io"]
)
async def test_a_webhook_of_an_absent_service_is_told_of_and_refuses(backend: Backend, name: str) -> None:
    service = "absent" if name != "policy.volcano.sh" else "absent-service"
    (told,) = await warned(backend, of_service(name, service))
    why = f"service default/{service} is not there"
    assert told == f"webhook {name} refuses every request that it is shown until a pod answers: {why}"
    with pytest.raises(ApiError, match=f"service default/{service} is not there"):
        await create(backend)


async def test_a_service_without_pods_is_told_of_where_the_webhook_may_be_missing(backend: Backend) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "empty"}}
    spec = {"ports": [{"port": 443}], "selector": {"app": "x"}}
    await backend.service.create(SERVICES, "default", {**service, "spec": spec}, OPTIONS)
    (told,) = await warned(backend, of_service("a.example.com", "empty", failurePolicy="Ignore"))
    assert told.endswith("is passed over until a pod answers: service default/empty has no pod that is ready")
    await create(backend)
