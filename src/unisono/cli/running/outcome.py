"""How the jobs of ``unisono run`` ended: one line each, with the cause, and the result for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from unisono.cli.views import SUCCEEDED, JobView, end_text

if TYPE_CHECKING:
    from unisono.sdk.events import Target
    from unisono.sdk.first_failure import Failure


def ending_line(view: JobView, seconds: float, failure: Failure | None, *, stopped: bool = False) -> str:
    """The last line of a run, coloured; ``stopped`` where the control plane of a job that has not ended is gone."""
    good = view.phase == SUCCEEDED
    if good:
        text = f"{view.title} {view.phase.lower()} in {seconds:.1f} s"
    elif not view.ended:
        why = view.message or view.waiting
        state = f"did not end, it was {view.phase.lower()}" if stopped else f"has not ended, it is {view.phase.lower()}"
        text = f"{view.title} {state}" + (f": {why}" if why else "")
    elif failure is not None:
        text = f"{view.title} failed: {failure.text}"
    else:
        reasons = [view.message] if view.message else []
        reasons += [f"{end.name}: {end_text(end)}" for end in view.ends if end.phase == "Failed"][:3]
        text = f"{view.title} {view.phase.lower()}" + (f": {'; '.join(reasons)}" if reasons else "")
    return click.style(text, fg="green" if good else "red", bold=True)


def results(
    views: Mapping[Target, JobView], failures: Mapping[Target, Failure], seconds: float, *, succeeded: bool
) -> dict[str, Any]:
    """What ``--output json`` prints."""
    from unisono.cli.following import result_of

    jobs = []
    for target, view in views.items():
        failure = failures.get(target)
        cause = {"process": failure.who, "cause": failure.cause, "others": failure.others} if failure else None
        jobs.append({**result_of(view, seconds), "failure": cause})
    return {"succeeded": succeeded, "seconds": round(seconds, 3), "jobs": jobs}
