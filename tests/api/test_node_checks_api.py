"""NodeChecks are refused with the field that is wrong, and books of nodes are read as far as they can be."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import START, node_check
from unisono.api.core import Container, PodSpec
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.kinds import NODE_CHECKS
from unisono.api.node_checks import Mark, marks_of, marks_text, rule_of
from unisono.api.validation import validate


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"nodes": None}, "spec.nodes"),
        ({"nodes": ["a[bc]"]}, "spec.nodes[0]"),
        ({"nodes": ["gpu-*", "*a*b*c*d*e*f*g*h*i"]}, "spec.nodes[1]"),
        ({"nodes": [""]}, "spec.nodes[0]"),
        ({"when": ["AfterUse", "Sometimes"]}, "spec.when[1]"),
        ({"when": []}, "spec.when"),
        ({"resources": ["cpu"]}, "spec.resources[0]"),
        ({"resources": ["licenses.unisono.io/matlab"]}, "spec.resources[0]"),
        ({"command": None}, "spec.template"),
        ({"template": PodTemplateSpec(spec=PodSpec(containers=[Container(name="c", image="i")]))}, "spec.command"),
        ({"command": None, "template": PodTemplateSpec()}, "spec.template.spec.containers"),
        ({"timeout": "soon"}, "spec.timeout"),
        ({"timeout": "0s"}, "spec.timeout"),
        ({"timeout": "25h"}, "spec.timeout"),
        ({"idle_every": "59s"}, "spec.idleEvery"),
        ({"quarantine_for": "10000h"}, "spec.quarantineFor"),
        ({"retries": 11}, "spec.retries"),
        ({"quarantine_after_faults": 0}, "spec.quarantineAfterFaults"),
        ({"max_concurrent": 0}, "spec.maxConcurrent"),
        ({"max_concurrent": "0%"}, "spec.maxConcurrent"),
        ({"max_quarantined": "101%"}, "spec.maxQuarantined"),
        ({"max_quarantined": "some"}, "spec.maxQuarantined"),
    ],
)
def test_what_is_refused(spec: dict[str, Any], field: str) -> None:
    assert field in [one.path for one in validate(NODE_CHECKS, node_check(**spec))]


@pytest.mark.parametrize("name", ["by-hand", "x" * 64])
def test_names_that_no_taint_can_have(name: str) -> None:
    assert "metadata.name" in [one.path for one in validate(NODE_CHECKS, node_check(name))]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"when": [], "idle_every": "24h"},
        {"when": [], "quarantine_after_faults": 3},
        {"nodes": None, "node_selector": {"gpu": "h100"}},
        {"max_concurrent": 3, "max_quarantined": 0},
        {"max_concurrent": "100%", "max_quarantined": "1%", "quarantine_for": "2h", "timeout": "90s", "retries": 0},
    ],
)
def test_what_is_taken(spec: dict[str, Any]) -> None:
    assert validate(NODE_CHECKS, node_check(**spec)) == []
    assert rule_of(node_check(**spec)).name == "gpus"


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        (None, {}),
        ("", {}),
        ("gpus=Passed@2023-11-14T22:13:20Z", {"gpus": Mark("Passed", START)}),
        (
            "a=Checking:2@2023-11-14T22:13:20Z, b=Kept@2023-11-14T22:13:20Z",
            {"a": Mark("Checking", START, 2), "b": Mark("Kept", START)},
        ),
        ("a=Great@2023-11-14T22:13:20Z,b=Passed@then,=Passed@2023-11-14T22:13:20Z,c", {}),
        ("a=Checking:x@2023-11-14T22:13:20Z", {"a": Mark("Checking", START)}),
    ],
)
def test_books_are_read_as_far_as_they_can_be(text: str | None, marks: dict[str, Mark]) -> None:
    assert marks_of(text) == marks
    assert marks_of(marks_text(marks)) == marks


def test_what_is_too_long_is_not_read() -> None:
    text = ",".join(f"c{at}=Passed@2023-11-14T22:13:20Z" for at in range(10_000))
    assert len(marks_of(text)) == 32
