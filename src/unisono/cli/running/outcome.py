"""How the jobs of ``unisono run`` ended: one line each, with the cause, and the result for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from unisono.cli.views import SUCCEEDED, JobView, end_text
from unisono.sdk.logstream import short_name
from unisono.sdk.program import TASK

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient
    from unisono.sdk.events import Target
    from unisono.sdk.observing import Observation

_OOM = "it needed more memory than its limit; give it more with --memory, or resources.limits.memory in a manifest"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job failed.

    Attributes:
        who: the process that failed first: ``rank 2``, ``worker-1``; empty where the job has but one.
        cause: its exception, or how it ended.
        others: number of pods that failed after it.
        read_on: command that prints all lines; empty where the control plane ends with this command.

    """

    who: str
    cause: str
    others: int
    read_on: str = ""

    @property
    def text(self) -> str:
        """One sentence."""
        first = f"{self.who} failed first: " if self.who and self.others else f"{self.who}: " if self.who else ""
        more = f"; {self.others} more failed after it" if self.others else ""
        return f"{first}{self.cause}{more}" + (f"; all lines: {self.read_on}" if self.read_on else "")


async def failure_of(client: HttpClient, seen: Observation, options: str, *, private: bool) -> Failure | None:
    """Why a job that has ended did not succeed; None where no pod of it failed.

    Args:
        client: the server.
        seen: the job and its pods at its end.
        options: with which another command finds the same control plane.
        private: the control plane ends with this command, and the logs with it.

    """
    from unisono.sdk.failures import failed_pods

    found = await failed_pods(client, seen.pods)
    if not found:
        return None
    view, first = seen.view, found[0]
    several = sum(task.wanted for task in view.tasks) > 1
    place = f" --namespace {view.namespace}" if view.namespace != "default" else ""
    command = f"unisono logs {view.title}{options}{place}"
    return Failure(
        process_name(first.name, view.name) if several else "",
        f"OOMKilled: {_OOM}" if first.ending == "OOMKilled" else first.cause,
        len(found) - 1,
        "" if private else command,
    )


def process_name(pod: str, job: str) -> str:
    """``rank 2`` of ``train-rank-2``, ``worker-1`` of ``train-worker-1``."""
    short = short_name(pod, job)
    task, _, number = short.rpartition("-")
    return f"{task} {number}" if task == TASK else short


def ending_line(view: JobView, seconds: float, failure: Failure | None) -> str:
    """The last line of a run, coloured."""
    good = view.phase == SUCCEEDED
    if good:
        text = f"{view.title} {view.phase.lower()} in {seconds:.1f} s"
    elif not view.ended:
        why = view.message or view.waiting
        text = f"{view.title} has not ended, it is {view.phase.lower()}" + (f": {why}" if why else "")
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
