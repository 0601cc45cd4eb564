"""No annotation or label of one user's objects makes a built-in plug-in fail, least of all for others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import unisono
from support.build import bound_per_job, cluster, config, gang, group, node, nodes, pod, queue, schedule
from unisono.engine.plugins.registry import BUILT_IN

_TEXT = re.compile(r'"((?:[a-z0-9-]+\.)+[a-z]{2,}/[A-Za-z0-9._-]+)"')
KEYS = sorted(
    {
        key
        for folder in ("api", "cluster", "engine")
        for path in (Path(unisono.__file__).parent / folder).rglob("*.py")
        for key in _TEXT.findall(path.read_text())
    }
)
VALUES = [
    "",
    "x",
    "-1",
    "1e999",
    "NaN",
    "{",
    "[1",
    "null",
    "[]",
    "9" * 5000,
    "0/0",
    '{"a": [null]}',
    '{"cpu": 1e999}',
    '{"numa": {"0": {"cpu": "9e99"}}}',
    "\u0660",
    "1:2,3;",
    "[" * 3000,
]
ACTIONS = "enqueue, allocate, preempt, reclaim, backfill, shuffle"
LOOSE = {"nodegroup": {"strict": False}}
QUOTAS = {"proportion": ["capacity"], "capacity": ["proportion"]}


def test_there_are_keys_to_try() -> None:
    assert len(KEYS) > 30


@pytest.mark.parametrize("quota", QUOTAS)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: value[:8])
def test_hostile_annotations_and_labels_fail_no_plugin(value: str, quota: str) -> None:
    names = [name for name in BUILT_IN if name not in ("extender", *QUOTAS[quota])]
    settings = config(names[:3], names[3:], actions=ACTIONS, arguments=LOOSE)
    notes = dict.fromkeys(KEYS, value)
    hostile_queue = queue("theirs")
    hostile_queue.metadata.annotations = dict(notes)
    head = group("hostile", 1, queue="theirs", annotations=notes)
    mine: dict[str, Any] = {"annotations": notes, "labels": notes}
    state = cluster(
        nodes(2, cpu=4),
        node("used", cpu=4, gpu=2),
        hostile_queue,
        head,
        pod("hostile-0", "hostile", **mine),
        pod("hostile-1", "hostile", node="used", **mine),
        gang("honest", 2, phase="Pending", min_resources=True),
    )
    decisions = schedule(state, settings)
    assert decisions.plugin_failures == []
    assert decisions.violations == []
    assert bound_per_job(decisions).get("honest") == 2, getattr(decisions.verdicts.get("ns/honest"), "message", "")
