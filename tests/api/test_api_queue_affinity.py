"""What queues say of node groups and namespaces: other names in their rules, and what refusals tell of them."""

from __future__ import annotations

import msgspec
import pytest

from unisono.api.groups.scheduling import QueueAffinity
from unisono.api.queues import reserved_queue_in, with_group

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


@pytest.mark.parametrize(
    ("rules", "then"),
    [
        ({"nodeGroupAffinity": {REQUIRED: ["A100", "h100"]}}, {"nodeGroupAffinity": {REQUIRED: ["a100", "h100"]}}),
        ({"nodeGroupAntiAffinity": {PREFERRED: ["A100"]}}, {"nodeGroupAntiAffinity": {PREFERRED: ["a100"]}}),
        ({"nodeGroupAffinity": {PREFERRED: ["h100"]}}, {"nodeGroupAffinity": {PREFERRED: ["h100"]}}),
        ({}, {}),
    ],
)
def test_a_group_gets_another_name(rules: dict[str, object], then: dict[str, object]) -> None:
    affinity, expected = (msgspec.convert(each, QueueAffinity) for each in (rules, then))
    assert with_group(affinity, "A100", "a100") == expected


@pytest.mark.parametrize(
    ("text", "queue"),
    [
        ("x is forbidden: queue lab is for jobs of other namespaces than default (annotation)", "lab"),
        ("queue org, which queue lab is below, is for jobs of other namespaces than default (annotation)", "org"),
        ('queue lab is not for user "ann"', ""),
        ("", ""),
    ],
)
def test_a_refusal_tells_whose_rule_it_is(text: str, queue: str) -> None:
    assert reserved_queue_in(text) == queue
