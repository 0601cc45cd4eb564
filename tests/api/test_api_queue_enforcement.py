"""Fields of a Queue that a configuration does not enforce, in words that say what it takes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from unisono.api.annotations import ENFORCED_QUEUE_FIELDS
from unisono.api.groups.scheduling import QueueSpec
from unisono.api.queues import NEEDS, unenforced, warnings_of

GROUP = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["a"]}}
STATED: dict[str, dict[str, Any]] = {
    "weight": {"weight": 3},
    "deserved": {"deserved": {"cpu": "4"}},
    "guarantee": {"guarantee": {"resource": {"cpu": "4"}}},
    "priority": {"priority": 5},
    "affinity": {"affinity": GROUP},
    "parent": {"parent": "org", "deserved": {"cpu": "4"}},
    "dequeueStrategy": {"dequeueStrategy": "fifo"},
}
NOTHING = [
    {"weight": 1, "capability": {"cpu": "4"}, "reclaimable": False},
    {"parent": "root", "priority": 0, "deserved": {}, "guarantee": {}},
    {"parent": "org", "capability": {"cpu": "4"}, "dequeueStrategy": "traverse"},
]


def spec(value: dict[str, Any]) -> QueueSpec:
    return msgspec.convert(value, QueueSpec)


@pytest.mark.parametrize("field", NEEDS)
def test_a_field_is_named_unless_it_is_enforced(field: str) -> None:
    assert field in unenforced(spec(STATED[field]), ())
    assert list(unenforced(spec(STATED[field]), NEEDS)) == []


@pytest.mark.parametrize("value", NOTHING)
def test_what_holds_anyway_is_not_named(value: dict[str, Any]) -> None:
    assert list(unenforced(spec(value), ())) == []


def test_the_sentence_names_the_field_and_the_way_out() -> None:
    queue = spec({"deserved": {"cpu": "4"}, "weight": 2})
    assert warnings_of(queue, {ENFORCED_QUEUE_FIELDS: "weight,priority"}) == [
        "spec.deserved: the scheduler's configuration does not enforce it; list the plug-in capacity"
    ]
    assert len(warnings_of(queue, {ENFORCED_QUEUE_FIELDS: ""})) == 2
    assert warnings_of(queue, {}) == warnings_of(queue, None) == []
