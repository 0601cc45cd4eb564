"""HyperNodes: what is accepted, and what is refused in which words."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api import kinds
from unisono.api.decode import decode
from unisono.api.validation import validate


def node(*members: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "s0"}, "spec": {"tier": 1, "members": list(members), **spec}}


def member(kind: str = "Node", **selector: Any) -> dict[str, Any]:
    return {"type": kind, "selector": selector}


def messages(value: dict[str, Any]) -> list[str]:
    decoded = decode(kinds.HYPER_NODES, value)
    assert (decoded.unknown_fields, decoded.type_errors) == ([], [])
    return [error.message() for error in validate(kinds.HYPER_NODES, decoded.obj)]


@pytest.mark.parametrize(
    "value",
    [
        node(member(exactMatch={"name": "n1"})),
        node(member(regexMatch={"pattern": "^rack1-"}), tierName="rack"),
        node(member(labelMatch={"matchLabels": {"rack": "a"}}), tier=0),
        node(member("HyperNode", exactMatch={"name": "s1"}), tier=2),
    ],
)
def test_accepted(value: dict[str, Any]) -> None:
    assert messages(value) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"metadata": {"name": "s0"}, "spec": {"members": [member(exactMatch={"name": "n"})]}}, "spec.tier: Required"),
        (node(), "spec.members: Required value: member must have at least one member"),
        (node(member()), "Either ExactMatch or RegexMatch or LabelMatch must be specified"),
        (node({"type": "Node"}), "Either ExactMatch or RegexMatch or LabelMatch must be specified"),
        (
            node(member(exactMatch={"name": "n"}, regexMatch={"pattern": "n"})),
            "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
        ),
        (node(member(regexMatch={"pattern": "("})), "member regexMatch pattern is invalid: "),
        (node(member("HyperNode", regexMatch={"pattern": "s"})), "must be named by exactMatch"),
        (node(member("HyperNode", exactMatch={"name": "s0"})), "cannot be a member of itself"),
        (node(member("Rack", exactMatch={"name": "n"})), 'spec.members[0].type: Unsupported value: "Rack"'),
        (node(member(exactMatch={"name": "n"}), tier=-1), "should be greater than or equal to 0"),
        (node(member(exactMatch={"name": "N_1"})), "should match"),
        (node(member(exactMatch={})), "member exactMatch must have a name"),
    ],
)
def test_refused(value: dict[str, Any], expected: str) -> None:
    found = messages(value)
    assert any(expected in message for message in found), found
