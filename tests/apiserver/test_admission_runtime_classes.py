"""What a RuntimeClass adds to pods, and which pods it refuses."""

from __future__ import annotations

import pytest

from support.backends import OPTIONS, names, opened, pod_body, value
from unisono.api.core import Toleration
from unisono.api.kinds import PODS, RUNTIME_CLASSES
from unisono.apiserver.admission.pods import merge_tolerations
from unisono.errors import ApiError, Invalid

SANDBOX = {
    "handler": "sandbox",
    "overhead": {"podFixed": {"cpu": "0.25", "memory": "64Mi"}},
    "scheduling": {
        "nodeSelector": {"runtime": "sandbox"},
        "tolerations": [{"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"}],
    },
}
REFUSED: list[tuple[dict[str, object], str]] = [
    ({"spec_runtimeClassName": "nope"}, 'pod rejected: RuntimeClass "nope" not found'),
    (
        {"spec_runtimeClassName": "sandbox", "spec_overhead": {"cpu": "1"}},
        "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
    ),
    (
        {"spec_overhead": {"cpu": "1"}},
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
    ),
    (
        {"spec_runtimeClassName": "plain", "spec_overhead": {"cpu": "1"}},
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
    ),
    (
        {"spec_runtimeClassName": "sandbox", "spec_nodeSelector": {"runtime": "other"}},
        "conflict: runtimeClass.scheduling.nodeSelector[runtime] = sandbox; pod.spec.nodeSelector[runtime] = other",
    ),
]
MERGED = [
    ("a=1:NoSchedule b", "a=1:NoSchedule b"),
    ("a=1 a=1", "a=1"),
    ("a=1:NoSchedule a:NoSchedule", "a:NoSchedule"),
    ("a a=1:NoExecute", "a"),
    ("a=1 a=2", "a=1 a=2"),
    ("a=1:NoSchedule *", "*"),
    ("* a=1", "*"),
    ("a:NoExecute/30 a:NoExecute", "a:NoExecute"),
    ("a:NoExecute/30 a:NoExecute/60", "a:NoExecute/60"),
    ("a:NoExecute a:NoSchedule", "a:NoExecute a:NoSchedule"),
]


@pytest.fixture
async def service():
    async with opened() as backend:
        yield backend.service


async def created(service, kind, body):
    return value((await service.create(kind, body["metadata"].get("namespace"), body, OPTIONS)).object)


async def class_made(service, name="sandbox", **fields):
    head = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}}
    return await created(service, RUNTIME_CLASSES, {**head, **(fields or SANDBOX)})


async def test_a_pod_gets_what_its_class_says(service):
    await class_made(service)
    own = [{"key": "gpu", "operator": "Exists"}]
    body = pod_body(
        "p", spec_runtimeClassName="sandbox", spec_nodeSelector={"zone": "a"}, spec_tolerations=own, spec_overhead={}
    )
    spec = (await created(service, PODS, body))["spec"]
    assert spec["overhead"] == {"cpu": "250m", "memory": "64Mi"}
    assert spec["nodeSelector"] == {"zone": "a", "runtime": "sandbox"}
    given = [one for one in spec["tolerations"] if not one["key"].startswith("node.kubernetes.io/")]
    assert given == own + SANDBOX["scheduling"]["tolerations"]


async def test_the_same_overhead_in_other_words_is_no_contradiction(service):
    await class_made(service)
    body = pod_body("p", spec_runtimeClassName="sandbox", spec_overhead={"cpu": "250m", "memory": "65536Ki"})
    assert (await created(service, PODS, body))["spec"]["overhead"] == {"cpu": "250m", "memory": "64Mi"}


async def test_a_class_without_anything_leaves_the_pod_alone(service):
    await class_made(service, "plain", handler="plain")
    spec = (await created(service, PODS, pod_body("p", spec_runtimeClassName="plain")))["spec"]
    assert not {"overhead", "nodeSelector"} & spec.keys()


@pytest.mark.parametrize(("fields", "message"), REFUSED)
async def test_pods_that_are_refused(service, fields, message):
    await class_made(service)
    await class_made(service, "plain", handler="plain")
    with pytest.raises(ApiError) as caught:
        await created(service, PODS, pod_body("p", **fields))
    assert (caught.value.code, caught.value.message) == (403, f'pods "p" is forbidden: {message}')
    assert await names(service, PODS) == []


async def test_a_class_that_changes_or_goes_leaves_its_pods_alone(service):
    await class_made(service)
    await created(service, PODS, pod_body("p", spec_runtimeClassName="sandbox"))
    less = {"overhead": {"podFixed": {"cpu": "1"}}}
    await service.patch(RUNTIME_CLASSES, None, "sandbox", less, "merge", OPTIONS)
    labelled = await service.patch(PODS, "default", "p", {"metadata": {"labels": {"a": "b"}}}, "merge", OPTIONS)
    assert value(labelled.object)["spec"]["overhead"]["cpu"] == "250m"
    with pytest.raises(Invalid, match="handler: Invalid value"):
        await service.patch(RUNTIME_CLASSES, None, "sandbox", {"handler": "other"}, "merge", OPTIONS)


def toleration(text: str) -> Toleration:
    """``KEY[=VALUE][:EFFECT[/SECONDS]]``; ``*`` endures everything."""
    rest, _, seconds = text.partition("/")
    rest, _, effect = rest.partition(":")
    key, _, wanted = rest.partition("=")
    return Toleration(
        key=None if key == "*" else key,
        operator="Equal" if wanted else "Exists",
        value=wanted or None,
        effect=effect or None,
        toleration_seconds=int(seconds) if seconds else None,
    )


@pytest.mark.parametrize(("given", "kept"), MERGED)
def test_a_toleration_that_another_one_covers_is_left_out(given, kept):
    assert merge_tolerations(tuple(map(toleration, given.split()))) == list(map(toleration, kept.split()))
