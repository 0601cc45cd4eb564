"""Specs that were right once are not looked at again, and nobody can tell by the answers."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from unisono.api.decode import Known, decode, encode
from unisono.api.kinds import CONFIG_MAPS, PODS
from unisono.api.validation import validate


def _pod(name: str, **container: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "busybox", **container}]}}


def test_equal_specs_are_decoded_alike() -> None:
    first, second = (decode(PODS, _pod("a")) for _ in range(2))
    assert encode(first.obj) == encode(second.obj)
    assert first.clean == second.clean == _pod("a")
    assert first.obj.spec is not second.obj.spec, "each owner may change its own"
    other = decode(PODS, {**_pod("b"), "bogus": 1})
    assert (other.obj.metadata.name, other.unknown_fields) == ("b", ["bogus"])


@pytest.mark.parametrize(
    ("container", "unknown", "wrong"),
    [
        pytest.param({"bogus": 1}, ["spec.containers[0].bogus"], [], id="unknown field"),
        pytest.param({"tty": "yes"}, [], ["spec.containers[0].tty"], id="wrong type"),
        pytest.param({"tty": None}, [], [], id="null"),
        pytest.param({"resources": {"limits": {"cpu": " 1 "}}}, [], [], id="to be trimmed"),
    ],
)
def test_what_is_wrong_is_told_each_time(container: dict[str, Any], unknown: list[str], wrong: list[str]) -> None:
    answers = [decode(PODS, _pod("a", **container)) for _ in range(3)]
    for answer in answers:
        assert answer.unknown_fields == unknown
        assert [error.path for error in answer.type_errors] == wrong
        assert encode(answer.obj) == encode(answers[0].obj)
        assert answer.clean == answers[0].clean
        assert answer.clean != _pod("a", **container)


def test_a_broken_rule_is_told_each_time() -> None:
    for container, fields in (({}, []), ({"imagePullPolicy": "Perhaps"}, ["spec.containers[0].imagePullPolicy"])) * 2:
        pod = decode(PODS, _pod("a", **container)).obj
        assert [error.path for error in validate(PODS, pod)] == fields


def test_a_spec_says_nothing_about_other_pods_metadata() -> None:
    pod = decode(PODS, _pod("a")).obj
    assert validate(PODS, pod) == []
    pod.metadata = copy.copy(pod.metadata)
    pod.metadata.name = "No Name"
    assert [error.path for error in validate(PODS, pod)] == ["metadata.name"]


def test_only_the_last_ones_are_remembered() -> None:
    known = Known(2)
    for value in (b"a", b"b"):
        known.add(PODS.struct, value)
    assert known.met(PODS.struct, b"a")
    known.add(PODS.struct, b"c")
    assert [known.met(PODS.struct, value) for value in (b"a", b"b", b"c")] == [True, False, True]
    assert not known.met(CONFIG_MAPS.struct, b"a"), "another kind has other fields"
