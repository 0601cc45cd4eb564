"""FloatingResources and what asks for them: what is refused, at which field, and how it is to be written."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import group
from unisono.api.annotations import LICENSES
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.kinds import FLOATING_RESOURCES, POD_GROUPS
from unisono.api.licenses import asked_for, licenses_of, licenses_text
from unisono.api.validation import validate

SOURCE = {"url": "https://licences.example.com/x", "amountPointer": "/total"}


def errors(spec: dict[str, Any], name: str = "matlab") -> list[str]:
    body = {"apiVersion": "quota.unisono.io/v1alpha1", "kind": "FloatingResource"}
    decoded = decode(FLOATING_RESOURCES, {**body, "metadata": {"name": name}, "spec": spec})
    assert not decoded.unknown_fields
    apply_defaults(FLOATING_RESOURCES, decoded.obj)
    return [error.message() for error in validate(FLOATING_RESOURCES, decoded.obj)]


@pytest.mark.parametrize(
    "spec",
    [
        {"amount": 0},
        {"amount": 10, "inUse": 10},
        {"source": SOURCE},
        {"amount": 4, "source": {"url": "http://[::1]:80/a?b", "inUsePointer": "/a/0"}},
    ],
)
def test_what_is_accepted(spec: dict[str, Any]) -> None:
    assert errors(spec) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "spec.amount"),
        ({"amount": -1}, "spec.amount"),
        ({"amount": 1_000_001}, "spec.amount"),
        ({"amount": 1, "inUse": 2}, "spec.inUse"),
        ({"source": {**SOURCE, "url": "ftp://x"}}, "spec.source.url"),
        ({"source": {**SOURCE, "url": "https://user:secret@x/y"}}, "spec.source.url"),
        ({"source": {**SOURCE, "url": "https:///y"}}, "spec.source.url"),
        ({"source": {**SOURCE, "amountPointer": "total"}}, "spec.source.amountPointer"),
        ({"amount": 1, "source": {"url": SOURCE["url"]}}, "spec.source.amountPointer"),
        ({"source": {"url": SOURCE["url"], "inUsePointer": "/a"}}, "spec.amount"),
        ({"source": {**SOURCE, "intervalSeconds": 1}}, "spec.source.intervalSeconds"),
        ({"source": {**SOURCE, "intervalSeconds": 60, "staleSeconds": 60}}, "spec.source.staleSeconds"),
    ],
)
def test_what_is_refused_names_its_field(spec: dict[str, Any], field: str) -> None:
    found = errors(spec)
    assert found
    assert found[0].startswith(field)


@pytest.mark.parametrize("name", ["a" * 64, "a-"])
def test_a_name_that_no_resource_can_have_is_refused(name: str) -> None:
    assert any("metadata.name" in text for text in errors({"amount": 1}, name))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", {}), ("a", {"a": 1}), (" matlab=2 , ansys", {"matlab": 2, "ansys": 1}), ("a.b-c = 3,", {"a.b-c": 3})],
)
def test_texts_that_ask_for_licences(text: str, expected: dict[str, int]) -> None:
    assert licenses_of(text) == expected
    assert licenses_of(licenses_text(expected)) == expected
    assert asked_for({LICENSES: text}) == {f"licenses.unisono.io/{name}": 1000 * n for name, n in expected.items()}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("matlab:2", "names no floating resource"),
        ("MATLAB", "names no floating resource"),
        ("matlab=0", "must ask for 1 to"),
        ("matlab=-1", "no whole number"),
        ("matlab=1.5", "no whole number"),
        ("matlab=9999999", "must ask for 1 to"),
        ("matlab=" + "9" * 5000, "no whole number"),
        ("matlab=²", "no whole number"),
        ("a,a=2", "stands there twice"),
        (",".join(f"n{at}" for at in range(17)), "too many, 16 at most"),
    ],
)
def test_texts_that_cannot_be_read_are_refused_where_they_are_written(text: str, told: str) -> None:
    found = [error.message() for error in validate(POD_GROUPS, group("g", annotations={LICENSES: text}))]
    assert len(found) == 1
    assert found[0].startswith(f"metadata.annotations[{LICENSES}]")
    assert told in found[0]


def test_an_object_that_was_there_before_can_be_changed() -> None:
    old = group("g", annotations={LICENSES: "matlab:2"})
    assert validate(POD_GROUPS, group("g", 2, annotations={LICENSES: "matlab:2"}), old) == []
    assert validate(POD_GROUPS, group("g", 2, annotations={LICENSES: "matlab:3"}), old)
