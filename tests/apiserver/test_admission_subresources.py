"""Webhooks see what subresources take: who is asked about bindings, evictions, scales and statuses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.backends import opened
from support.hooks import Document, Hooks, configure, patched, refused, webhook
from unisono.api.kinds import NAMESPACES, PODS, find
from unisono.apiserver.backend import Backend
from unisono.apiserver.types import DeleteOptions, WriteOptions
from unisono.errors import ApiError, Conflict, NotFound

DEPLOYMENTS = find("apps/v1", "Deployment")
ANN = WriteOptions(user="ann", groups=("devs",))
BINDING = {"metadata": {"name": "p", "annotations": {"by": "us"}}, "target": {"kind": "Node", "name": "n1"}}
EVICTION: Document = {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 7}}
LABELS = {"app": "web"}


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with opened() as backend:
        containers = [{"name": "c", "image": "i"}]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
        await backend.service.create(PODS, "default", pod, ANN)
        template = {"metadata": {"labels": LABELS}, "spec": {"containers": containers}}
        spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
        await backend.service.create(DEPLOYMENTS, "default", deployment, ANN)
        yield backend


@pytest.fixture
def hooks(backend: Backend) -> Hooks:
    hooks = Hooks()
    backend.service.hooks.caller = hooks
    return hooks


async def bind(backend: Backend, options: WriteOptions = ANN) -> list[str]:
    return await backend.service.bind("default", "p", BINDING, options)


async def evict(backend: Backend, options: WriteOptions = ANN) -> list[str]:
    return await backend.service.evict("default", "p", EVICTION, options)


async def scale(backend: Backend, options: WriteOptions = ANN, replicas: int = 3) -> Document:
    change = {"spec": {"replicas": replicas}}
    done = await backend.service.patch(DEPLOYMENTS, "default", "web", change, "merge", options, "scale")
    return {**json.loads(done.object), "warnings": done.warnings}


async def report(backend: Backend, options: WriteOptions = ANN) -> None:
    change = {"status": {"message": "here"}}
    await backend.service.patch(PODS, "default", "p", change, "merge", options, "status")


async def pod(backend: Backend) -> Document:
    found: Document = json.loads(await backend.service.get(PODS, "default", "p"))
    return found


ACTS: dict[str, Any] = {"pods/binding": bind, "pods/eviction": evict, "pods/status": report, "deployments/scale": scale}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("resources", ["itself", "*/*", "{plural}/*", "*/{subresource}", "*", "{plural}", "secrets/*"])
async def test_rules_name_subresources(backend: Backend, hooks: Hooks, act: str, resources: str) -> None:
    plural, _, subresource = act.partition("/")
    wanted = act if resources == "itself" else resources.format(plural=plural, subresource=subresource)
    await configure(backend, webhook("sees", wanted))
    await ACTS[act](backend)
    assert hooks.names() == (["sees"] if "/" in wanted and "secrets" not in wanted else [])


SHOWN = {
    "pods/binding": ("CREATE", "p", {"group": "", "version": "v1", "kind": "Binding"}),
    "pods/eviction": ("CREATE", "p", {"group": "policy", "version": "v1", "kind": "Eviction"}),
    "pods/status": ("UPDATE", "p", {"group": "", "version": "v1", "kind": "Pod"}),
    "deployments/scale": ("UPDATE", "web", {"group": "autoscaling", "version": "v1", "kind": "Scale"}),
}


@pytest.mark.parametrize("act", ACTS)
async def test_a_question_says_what_is_done_to_what(backend: Backend, hooks: Hooks, act: str) -> None:
    await configure(backend, webhook("sees", act))
    await ACTS[act](backend)
    operation, name, kind = SHOWN[act]
    plural, _, subresource = act.partition("/")
    ((_, request),) = hooks.asked
    assert (request["operation"], request["name"], request["namespace"]) == (operation, name, "default")
    assert (request["kind"], request["requestKind"]) == (kind, kind)
    assert (request["subResource"], request["requestSubResource"]) == (subresource, subresource)
    assert request["resource"]["resource"] == request["requestResource"]["resource"] == plural
    assert (request["userInfo"], request["dryRun"]) == ({"username": "ann", "groups": ["devs"]}, False)
    shown = request["object"]
    version = f"{kind['group']}/v1".removeprefix("/")
    assert (shown["apiVersion"], shown["kind"], shown["metadata"]["name"]) == (version, kind["kind"], name)


async def test_what_is_shown_is_what_was_sent(backend: Backend, hooks: Hooks) -> None:
    await configure(backend, webhook("sees", "*/*"))
    await bind(backend)
    await scale(backend)
    await evict(backend)
    binding, scaled, eviction = (request for _, request in hooks.asked)
    assert (binding["object"]["target"], binding["oldObject"]) == (BINDING["target"], None)
    assert binding["object"]["metadata"] == {"name": "p", "namespace": "default", "annotations": {"by": "us"}}
    assert (eviction["object"]["deleteOptions"], eviction["oldObject"]) == ({"gracePeriodSeconds": 7}, None)
    assert (scaled["object"]["spec"], scaled["oldObject"]["spec"]) == ({"replicas": 3}, {"replicas": 1})
    assert scaled["oldObject"]["status"]["selector"] == "app=web"


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("changing", [True, False])
async def test_what_a_webhook_refuses_is_not_done(backend: Backend, hooks: Hooks, act: str, changing: bool) -> None:
    await configure(backend, webhook("sees", act), changing=changing)
    hooks.replies["sees"] = refused
    before = await pod(backend)
    with pytest.raises(ApiError, match=r'webhook "sees\.example\.com" denied the request: not today') as error:
        await ACTS[act](backend)
    assert error.value.code == 403
    assert await pod(backend) == before
    assert json.loads(await backend.service.get(DEPLOYMENTS, "default", "web", "scale"))["spec"] == {"replicas": 1}


async def test_a_webhook_sends_a_pod_elsewhere_and_labels_it(backend: Backend, hooks: Hooks) -> None:
    await configure(backend, webhook("moves", "pods/binding"), changing=True)
    moved = {"op": "replace", "path": "/target/name", "value": "n2"}
    hooks.replies["moves"] = patched(moved, {"op": "add", "path": "/metadata/labels", "value": {"zone": "b"}})
    await bind(backend)
    found = await pod(backend)
    assert (found["spec"]["nodeName"], found["metadata"]["labels"]) == ("n2", {"zone": "b"})
    assert found["metadata"]["annotations"] == {"by": "us"}


async def test_a_webhook_gives_an_eviction_more_time(backend: Backend, hooks: Hooks) -> None:
    await bind(backend)
    await configure(backend, webhook("slower", "pods/eviction"), changing=True)
    hooks.replies["slower"] = patched({"op": "replace", "path": "/deleteOptions/gracePeriodSeconds", "value": 90})
    await evict(backend)
    assert (await pod(backend))["metadata"]["deletionGracePeriodSeconds"] == 90


async def test_a_webhook_bounds_a_scale(backend: Backend, hooks: Hooks) -> None:
    await configure(backend, webhook("bounds", "deployments/scale"), changing=True)
    hooks.replies["bounds"] = patched({"op": "replace", "path": "/spec/replicas", "value": 2})
    assert (await scale(backend, replicas=50))["spec"] == {"replicas": 2}


@pytest.mark.parametrize("value", [-1, "many"])
async def test_a_scale_that_a_webhook_breaks_is_not_stored(backend: Backend, hooks: Hooks, value: Any) -> None:
    await configure(backend, webhook("breaks", "deployments/scale"), changing=True)
    hooks.replies["breaks"] = patched({"op": "replace", "path": "/spec/replicas", "value": value})
    with pytest.raises(ApiError, match=r"spec\.replicas"):
        await scale(backend)
    assert json.loads(await backend.service.get(DEPLOYMENTS, "default", "web", "scale"))["spec"] == {"replicas": 1}


async def test_a_binding_that_a_webhook_breaks_binds_nothing(backend: Backend, hooks: Hooks) -> None:
    await configure(backend, webhook("breaks", "pods/binding"), changing=True)
    hooks.replies["breaks"] = patched({"op": "remove", "path": "/target"})
    with pytest.raises(ApiError, match=r"target\.name"):
        await bind(backend)
    assert "nodeName" not in (await pod(backend))["spec"]


@pytest.mark.parametrize("act", ["pods/binding", "pods/eviction", "deployments/scale"])
async def test_a_dry_run_is_shown_as_one_and_does_nothing(backend: Backend, hooks: Hooks, act: str) -> None:
    await configure(backend, webhook("sees", act))
    before = await pod(backend)
    await ACTS[act](backend, WriteOptions(dry_run=True))
    ((_, request),) = hooks.asked
    assert (request["dryRun"], request["options"]["dryRun"]) == (True, ["All"])
    assert await pod(backend) == before


@pytest.mark.parametrize("act", ["pods/binding", "pods/eviction"])
async def test_warnings_reach_whoever_acts(backend: Backend, hooks: Hooks, act: str) -> None:
    await configure(backend, webhook("sees", act))
    hooks.replies["sees"] = lambda _: {"allowed": True, "warnings": ["beware"]}
    assert await ACTS[act](backend) == ["beware"]


async def test_the_warnings_of_a_scale_reach_its_writer(backend: Backend, hooks: Hooks) -> None:
    await configure(backend, webhook("sees", "*/scale"))
    hooks.replies["sees"] = lambda _: {"allowed": True, "warnings": ["beware"]}
    assert (await scale(backend))["warnings"] == ["beware"]


async def test_a_pod_that_leaves_while_webhooks_are_asked_is_not_bound(backend: Backend, hooks: Hooks) -> None:
    async def meanwhile(_: Document) -> Document:
        await backend.service.delete(PODS, "default", "p", DeleteOptions(grace_period_seconds=0))
        return {"allowed": True}

    await configure(backend, webhook("slow", "pods/binding"))
    hooks.replies["slow"] = meanwhile
    with pytest.raises(NotFound):
        await bind(backend)


async def test_a_pod_that_is_bound_while_webhooks_are_asked_stays_there(backend: Backend, hooks: Hooks) -> None:
    async def meanwhile(request: Document) -> Document:
        if request["object"]["target"]["name"] == "n1":
            other = {"target": {"kind": "Node", "name": "n9"}}
            await backend.service.bind("default", "p", other, ANN)
        return {"allowed": True}

    await configure(backend, webhook("slow", "pods/binding"))
    hooks.replies["slow"] = meanwhile
    with pytest.raises(Conflict, match='already assigned to node "n9"'):
        await bind(backend)


async def test_a_scale_is_written_over_what_others_write_meanwhile(backend: Backend, hooks: Hooks) -> None:
    async def meanwhile(request: Document) -> Document:
        if len(hooks.asked) == 1:
            change = {"metadata": {"labels": {"by": "others"}}}
            await backend.service.patch(DEPLOYMENTS, "default", "web", change, "merge", ANN)
        return {"allowed": True}

    await configure(backend, webhook("slow", "deployments/scale"))
    hooks.replies["slow"] = meanwhile
    await scale(backend)
    found = json.loads(await backend.service.get(DEPLOYMENTS, "default", "web"))
    assert (found["spec"]["replicas"], found["metadata"]["labels"]) == (3, {"by": "others"})


@pytest.mark.parametrize(("node", "asked"), [("n1", True), ("n2", False)])
async def test_conditions_see_a_binding(backend: Backend, hooks: Hooks, node: str, asked: bool) -> None:
    expression = f"request.subResource == 'binding' && object.target.name == '{node}'"
    await configure(backend, webhook("sees", "*/*", matchConditions=[{"name": "mine", "expression": expression}]))
    await bind(backend)
    assert bool(hooks.asked) is asked


async def test_selectors_look_at_the_binding_and_its_namespace(backend: Backend, hooks: Hooks) -> None:
    mine = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
    labelled = {"matchLabels": {"app": "web"}}
    await configure(
        backend,
        webhook("here", "pods/binding", namespaceSelector=mine),
        webhook("elsewhere", "pods/binding", namespaceSelector=labelled),
        webhook("labelled", "pods/binding", objectSelector=labelled),
    )
    await bind(backend)
    assert hooks.names() == ["here"]


async def test_a_deletion_says_whose_it_is_and_a_namespace_is_in_itself(backend: Backend, hooks: Hooks) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    await backend.service.create(NAMESPACES, None, body, ANN)
    await configure(backend, webhook("sees", "namespaces"))
    await backend.service.delete(NAMESPACES, None, "team", DeleteOptions(user="ann", groups=("devs",)))
    assert hooks.asked[0][1]["userInfo"] == {"username": "ann", "groups": ["devs"]}
    assert hooks.asked[0][1]["namespace"] == "team"
