"""Which followed object a pod belongs to."""

from __future__ import annotations

from typing import Any

from unisono.api.base import Object, ObjectMeta, OwnerReference
from unisono.sdk.follow.following import OwnerGraph


def made(name: str, *owners: str) -> Any:
    references = [OwnerReference(api_version="v1", kind="Any", name=uid, uid=uid) for uid in owners]
    return Object(metadata=ObjectMeta(name=name, namespace="default", uid=name, owner_references=references or None))


def test_a_pod_belongs_to_the_object_at_the_top() -> None:
    graph = OwnerGraph([("steps", 1), ("alone", 2)])
    graph.add(made("steps-prepare", "steps"))
    assert graph.root_of(made("steps-prepare-t-0", "steps-prepare")) == 1
    assert graph.root_of(made("alone-t-0", "alone")) == 2
    assert graph.root_of(made("alone")) == 2


def test_other_pods_belong_to_none() -> None:
    graph = OwnerGraph([("mine", 1)])
    graph.add(made("other"))
    for pod in (made("a", "other"), made("b"), made("c", "unknown")):
        assert graph.root_of(pod) is None


def test_owners_in_a_circle_come_to_an_end() -> None:
    graph = OwnerGraph([("mine", 1)])
    graph.add(made("a", "b"))
    graph.add(made("b", "a"))
    assert graph.root_of(made("p", "a")) is None
