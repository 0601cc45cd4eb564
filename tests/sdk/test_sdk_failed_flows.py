"""A JobFlow whose job has ended without success says which one, and why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from unisono.sdk.reasons.failed_flows import failed_step

FLOW = {"kind": "JobFlow", "spec": {"flows": [{"name": "a"}, {"name": "b"}]}}


def job(name: str, phase: str | None, message: str = "") -> Any:
    state = SimpleNamespace(phase=phase, message=message, reason="") if phase is not None else None
    return SimpleNamespace(metadata=SimpleNamespace(name=name), status=SimpleNamespace(state=state))


@pytest.mark.parametrize(
    ("phase", "way"),
    [
        ("Failed", "it is deleted, and so made again"),
        ("Terminated", "it is deleted, and so made again"),
        ("Aborted", "it is resumed"),
    ],
)
def test_the_job_and_the_way_on_are_named(phase: str, way: str) -> None:
    step = failed_step(FLOW, [job("f-a", "Completed"), job("f-b", phase, "pod f-b-0 failed.")])
    assert str(step) == (f"its job f-b is {phase} (pod f-b-0 failed), and what depends on it waits until {way}")


@pytest.mark.parametrize("phase", ["Pending", "Running", "Completed", "", None])
def test_a_flow_that_goes_on_waits_for_no_new_run(phase: str | None) -> None:
    assert failed_step(FLOW, [job("f-a", phase)]) is None


def test_other_kinds_have_no_jobs_in_order() -> None:
    assert failed_step({"kind": "HyperJob", "spec": {}}, [job("h-a", "Failed")]) is None
