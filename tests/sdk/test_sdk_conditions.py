"""Complaints in conditions of objects of which nothing else is known."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.sdk.reasons.not_begun import complaints, has_conditions


def item(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "Thing", "status": {"conditions": list(conditions)}}


def condition(name: str, status: str, reason: str = "", message: str = "") -> dict[str, Any]:
    return {"type": name, "status": status, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (item(), ""),
        (item(condition("Ready", "True"), condition("Failed", "False")), ""),
        (
            item(condition("AbleToScale", "False", "FailedGetScale", 'deployments.apps "x" not found')),
            'AbleToScale is False: FailedGetScale: deployments.apps "x" not found',
        ),
        (
            item(
                condition("Ready", "Unknown", "Deploying", "no pod"),
                condition("RoutesReady", "Unknown", "Deploying", "no pod"),
            ),
            "Ready is Unknown, RoutesReady is Unknown: Deploying: no pod",
        ),
        (item(condition("Stalled", "True", "Timeout")), "Stalled is True: Timeout"),
        (item(condition("ScalingLimited", "True", "TooManyReplicas"), condition("SomebodysOwn", "False")), ""),
    ],
)
def test_what_conditions_complain_of(given: dict[str, Any], expected: str) -> None:
    assert complaints(given) == expected


@pytest.mark.parametrize(
    "status", [None, [], "text", {}, {"conditions": {"a": {}}}, {"conditions": ["x", 3, {"type": "Ready"}]}]
)
def test_other_shapes_have_none(status: Any) -> None:
    assert not has_conditions({"status": status})
    assert complaints({"status": status}) == ""
