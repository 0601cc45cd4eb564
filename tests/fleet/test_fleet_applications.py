"""What an Application brings to a cluster, and what it takes away again."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_target import FakeTarget
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from unisono.api.annotations import APPLICATION
from unisono.api.decode import decode, encode
from unisono.api.groups.fleet import Application, AttachedCluster, Fleet
from unisono.api.kind_families import APPLICATIONS, ATTACHED_CLUSTERS, FLEETS
from unisono.errors import ConfigError, Unavailable
from unisono.fleet.applications.bundle import PlacedPolicy, bundle, destinations, interval, prunes, suspended, waits_for
from unisono.fleet.applications.sync import Owner, Result, remove, status_of, sync

OWNER = Owner("the-hub", "fleets/policies", "policies-0")
NAMESPACE = "fleets"


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec or {"weight": 1},
    }


def config(name: str, namespace: str = "") -> dict[str, Any]:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "b"}}


async def bring(target: FakeTarget, *objects: dict[str, Any], prune: bool = True, force: bool = False) -> Any:
    made = bundle(objects, hub=OWNER.hub, application=OWNER.application)
    return await sync(target, made, OWNER, namespace=NAMESPACE, prune=prune, force=force)


# ---- bundle


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([{"kind": "Queue", "metadata": {"name": "a"}}], "object 0: apiVersion must be set"),
        ([queue("a"), {"apiVersion": "v1", "metadata": {"name": "a"}}], "object 1: kind must be set"),
        ([{**queue("a"), "metadata": {"generateName": "a-"}}], "metadata.name of the Queue must be set"),
        ([{**queue("a"), "metadata": {"name": "a", "labels": "x"}}], "metadata.labels of the Queue must be a map"),
        ([{**config("a"), "metadata": {"name": "a", "namespace": 3}}], "metadata.namespace of the ConfigMap"),
        ([queue("a"), queue("a")], "Queue a is there twice"),
        ([{"kind": "List", "apiVersion": "v1", "items": [{"kind": "Queue"}]}], "object 0.items[0]: apiVersion"),
        (["text"], "object 0: is no Kubernetes object but str"),
        ([queue(f"q{number}") for number in range(1001)], "1000 objects at most"),
    ],
)
def test_objects_that_cannot_be_applied_are_named(objects: list[Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("[", r"\[").replace("]", r"\]")):
        bundle(objects, hub="h", application="a/b")


def test_what_others_need_comes_first() -> None:
    webhook = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    objects = [{**webhook, "metadata": {"name": "w"}}, queue("q"), {**config("n"), "kind": "Namespace"}]
    assert [each["kind"] for each in bundle(objects, hub="h", application="a/b")] == [
        "Namespace",
        "Queue",
        "ValidatingWebhookConfiguration",
    ]


def test_policies_put_all_objects_into_one_namespace_and_label_them() -> None:
    made = bundle([config("a", "x"), config("b")], hub="h", application="a/b", namespace="team", labels={"k": "v"})
    assert {each["metadata"]["namespace"] for each in made} == {"team"}
    assert {each["metadata"]["labels"]["k"] for each in made} == {"v"}


# ---- one cluster


async def test_objects_come_change_and_go() -> None:
    target = FakeTarget()
    outcome = await bring(target, queue("a"), queue("b"), config("c"))
    assert (outcome.objects, outcome.message) == (3, "")
    assert target.names("Queue") == {"a", "b"}
    assert {ref.namespace for ref in target.objects if ref.name == "c"} == {NAMESPACE}
    await bring(target, queue("b", weight=7))
    assert target.names("Queue") == {"b"}
    assert "c" not in target.names("ConfigMap")
    assert next(each for ref, each in target.objects.items() if ref.name == "b")["spec"] == {"weight": 7}
    assert await remove(target, OWNER)
    assert target.names("Queue") == set()
    assert target.names("ConfigMap") == set()


async def test_without_prune_objects_stay() -> None:
    target = FakeTarget()
    await bring(target, queue("a"), queue("b"), prune=False)
    await bring(target, queue("b"), prune=False)
    assert target.names("Queue") == {"a", "b"}


async def test_objects_of_others_are_neither_changed_nor_deleted() -> None:
    target = FakeTarget()
    own = await target.locate(queue("own"), "")
    other = await target.locate(queue("other"), "")
    await target.apply(own, queue("own", weight=3))
    await target.apply(other, {**queue("other"), "metadata": {"name": "other", "annotations": {APPLICATION: "x/y"}}})
    outcome = await bring(target, queue("own"), queue("other"), queue("mine"))
    assert outcome.objects == 1
    assert "Queue own: exists already, and no Application brought it" in outcome.message
    assert f"annotate it with {APPLICATION}=fleets/policies" in outcome.message
    assert "Queue other: belongs to the Application x/y" in outcome.message
    await bring(target)
    assert target.names("Queue") == {"own", "other"}
    assert target.objects[own]["spec"] == {"weight": 3}


async def test_one_object_that_is_refused_does_not_hinder_the_others() -> None:
    target = FakeTarget("Rollout")
    target.refused["bad"] = "spec.weight must be positive"
    outcome = await bring(target, queue("bad"), queue("good"), {**queue("r"), "kind": "Rollout"})
    assert target.names("Queue") == {"good"}
    assert 'no matches for kind "Rollout"' in outcome.message
    assert "Queue bad: spec.weight must be positive" in outcome.message


async def test_nothing_is_pruned_while_a_kind_is_unknown() -> None:
    target = FakeTarget()
    await bring(target, queue("a"), config("c"))
    target.unknown.add("Queue")
    await bring(target, queue("a"))
    assert "c" in target.names("ConfigMap")


async def test_force_makes_an_object_again_that_cannot_be_changed() -> None:
    target = FakeTarget()
    await bring(target, queue("a"))
    before = next(each for ref, each in target.objects.items() if ref.name == "a")["metadata"]["uid"]
    whole = target.apply

    async def immutable(ref: Any, manifest: Any) -> Any:
        if ref.name == "a" and ref in target.objects:
            target.refused["a"] = "field is immutable"
        else:
            target.refused.pop("a", None)
        return await whole(ref, manifest)

    target.apply = immutable  # type: ignore[method-assign]
    assert "immutable" in (await bring(target, queue("a", weight=2))).message
    assert (await bring(target, queue("a", weight=2), force=True)).message == ""
    assert next(each for ref, each in target.objects.items() if ref.name == "a")["metadata"]["uid"] != before


names = st.sampled_from("abcde")
bundles = st.lists(st.sets(names, max_size=4), min_size=1, max_size=4)


@given(bundles, st.lists(st.integers(0, 8), max_size=4))
@settings(max_examples=examples(150))
async def test_a_crash_at_any_write_leaves_nothing_behind(versions: list[set[str]], crashes: list[int]) -> None:
    """Whatever is applied when the connection is lost: the next round ends with the wanted objects and no others."""
    target = FakeTarget()
    for number, wanted in enumerate(versions):
        objects = [queue(name) for name in sorted(wanted)]
        if number < len(crashes):
            target.writes, target.fails_after = 0, crashes[number]
            try:
                await bring(target, *objects)
            except Unavailable:
                continue
            finally:
                target.fails_after = None
        else:
            await bring(target, *objects)
    await bring(target, *(queue(name) for name in sorted(versions[-1])))
    assert target.names("Queue") == versions[-1]
    assert await remove(target, OWNER)
    assert target.names("Queue") == set()


# ---- where


def application(**spec: Any) -> Application:
    value = {"metadata": {"name": "app", "namespace": NAMESPACE}, "spec": {"source": {"manifests": []}, **spec}}
    return decode(APPLICATIONS, value).obj


def fleets(*members: str) -> dict[str, Fleet]:
    value = {"metadata": {"name": "f", "namespace": NAMESPACE}, "spec": {"clusters": [{"name": m} for m in members]}}
    return {f"{NAMESPACE}/f": decode(FLEETS, value).obj}


def clusters(**labels: dict[str, str]) -> dict[str, AttachedCluster]:
    return {
        f"{NAMESPACE}/{name}": decode(
            ATTACHED_CLUSTERS, {"metadata": {"name": name, "namespace": NAMESPACE, "labels": given}}
        ).obj
        for name, given in labels.items()
    }


def test_policies_go_to_the_clusters_of_the_fleet_that_have_the_labels() -> None:
    chosen = {"fleet": "f", "clusterSelector": {"matchLabels": {"env": "dev"}}}
    app = application(destination={"fleet": "f"}, syncPolicies=[{"name": "all"}, {"destination": chosen}])
    known = clusters(a={"env": "dev"}, b={"env": "prod"})
    found = destinations(app, fleets("a", "b", "absent").get, known.get)
    assert dict(found.places) == {
        PlacedPolicy("a", "all"): 0,
        PlacedPolicy("b", "all"): 0,
        PlacedPolicy("absent", "all"): 0,
        PlacedPolicy("a", "app-1"): 1,
    }


def test_a_fleet_that_is_not_there_is_told() -> None:
    app = application(destination={"fleet": "g"}, syncPolicies=[{}])
    found = destinations(app, fleets("a").get, {}.get)
    assert not found.places
    assert found.problem == 'there is no Fleet "g" in the namespace fleets'


def test_an_application_of_too_many_places_is_told_and_its_status_stays_small() -> None:
    many = [f"cluster-{number}" for number in range(1000)]
    app = application(destination={"fleet": "f"}, syncPolicies=[{}] * 5)
    found = destinations(app, fleets(*many).get, {}.get)
    assert found.problem == "its policies go to 5000 places, more than 4000: divide it"
    app = application(destination={"fleet": "f"}, syncPolicies=[{}] * 4)
    found = destinations(app, fleets(*many).get, {}.get)
    results = dict.fromkeys(found.places, Result(False, 0, "x" * 5000))
    assert len(encode(status_of(app, found, results, {}, "2026-01-01T00:00:00Z"))) < 1_500_000


@pytest.mark.parametrize(
    ("policy", "seconds", "prune", "asleep", "waits"),
    [
        ({}, 600.0, True, False, []),
        ({"kustomization": {"interval": "5m", "prune": False}}, 300.0, False, False, []),
        ({"kustomization": {"interval": "1s", "suspend": True}}, 10.0, True, True, []),
        ({"helm": {"interval": "30m", "dependsOn": [{"name": "first"}, 3]}}, 1800.0, True, False, ["first"]),
        ({"kustomization": {"interval": "nonsense"}}, 600.0, True, False, []),
    ],
)
def test_what_a_policy_says(policy: Any, seconds: float, prune: bool, asleep: bool, waits: list[str]) -> None:
    app = application(syncPolicies=[policy])
    assert app.spec.sync_policies is not None
    found = app.spec.sync_policies[0]
    assert (interval(found), prunes(found), suspended(app, found), waits_for(found)) == (seconds, prune, asleep, waits)
