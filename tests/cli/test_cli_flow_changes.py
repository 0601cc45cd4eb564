"""What is told of a job that is made of jobs, between two looks at it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from unisono.cli.running.report import changes
from unisono.sdk.state.views import JobView, TaskView

FLOW = JobView("steps", "default", "JobFlow", "Running", "default", admitted=True, gang=1, placed=0)
BEGUN = TaskView("steps-a", 1, {"Running": 1})
RUN = TaskView("steps-a", 1, {"Succeeded": 1})
HAS_RUN = "job steps-a has run"
COMPLETED = "Completed"


def seen(phase: str, *tasks: TaskView) -> JobView:
    return replace(FLOW, phase=phase, tasks=tasks)


@pytest.mark.parametrize(
    ("views", "told"),
    [
        ([seen("Running", BEGUN), seen("Running", RUN)], [HAS_RUN]),
        ([seen("Running", RUN), seen("Completed", RUN)], [COMPLETED]),
        ([seen("Running", BEGUN), seen("Completed", RUN), seen("Completed")], [HAS_RUN, COMPLETED]),
        # Its retain policy has taken the job away before its end was looked at.
        ([seen("Running", BEGUN), seen("Completed")], [HAS_RUN, COMPLETED]),
        ([seen("Running", BEGUN), seen("Completed", BEGUN), seen("Completed", RUN)], [HAS_RUN, COMPLETED]),
        ([seen("Running", BEGUN), seen("Failed")], ["Failed"]),
    ],
    ids=["ends", "told-before", "ends-with-the-flow", "gone", "pods-behind", "failed"],
)
def test_each_job_that_has_run_is_told_once(views: list[JobView], told: list[str]) -> None:
    lines = [line for old, new in pairwise(views) for line in changes(old, new)]
    assert lines == told
