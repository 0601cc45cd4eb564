"""A user with ``edit``, and an administrator, create objects as bad as the server takes: others are not harmed."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.hostile import attack, forge

pytestmark = [pytest.mark.processes]

PATIENCE = 300.0


@pytest.mark.more
async def test_a_job_runs_beside_hostile_objects_of_every_kind(tmp_path: Path) -> None:
    ceilings = attack.Ceilings(wait=PATIENCE)
    async with attack.attacking(tmp_path, seed=1, patience=PATIENCE, ceilings=ceilings) as attacked:
        kinds = len(attacked.forge.offered)
        # Kinds take turns: a batch of as many objects has one of each.
        await attacked.batch(0, kinds)
    report = attacked.report
    assert report.findings == [], "\n".join(map(str, report.findings))
    assert len(report.tried) >= 50
    assert sum(report.accepted.values()) > kinds // 3
    assert len(report.waits) == 1


def test_an_object_of_a_seed_is_always_the_same() -> None:
    kind = forge.Offered(
        "batch.volcano.sh", "v1alpha1", "jobs", "Job", True, {"properties": {"spec": {"type": "object"}}}
    )
    first, second = (forge.Forge([kind], seed=3) for _ in range(2))
    for number in range(50):
        first.attempt(number)
    assert [first.attempt(number) for number in range(50, 60)] == [second.attempt(number) for number in range(50, 60)]
    assert first.attempt(1) != first.attempt(2)
