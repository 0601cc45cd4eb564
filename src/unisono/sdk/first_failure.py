"""Why a job failed, in one sentence: the process that failed first, and its cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unisono.sdk.failures import failed_pods
from unisono.sdk.follow.log_lines import short_name
from unisono.sdk.jobs.program import TASK

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient
    from unisono.sdk.state.observing import Observation


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job failed.

    Attributes:
        who: the process that failed first: ``rank 2``, ``worker-1``; empty where the job has but one.
        cause: its exception, or how it ended.
        others: number of pods that failed after it.
        read_on: command that prints all lines; empty where there is none.

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


async def failure_of(client: HttpClient, seen: Observation, read_on: str = "") -> Failure | None:
    """Why a job that has ended did not succeed; None where no pod of it failed.

    Args:
        client: the server.
        seen: the job and its pods at its end.
        read_on: command that prints all lines.

    """
    found = await failed_pods(client, seen.pods)
    if not found:
        return None
    view, first = seen.view, found[0]
    several = sum(task.wanted for task in view.tasks) > 1
    return Failure(
        process_name(first.name, view.name) if several else "",
        first.cause,
        len(found) - 1,
        read_on,
    )


def process_name(pod: str, job: str) -> str:
    """``rank 2`` of ``train-rank-2``, ``worker-1`` of ``train-worker-1``."""
    short = short_name(pod, job)
    task, _, number = short.rpartition("-")
    return f"{task} {number}" if task == TASK else short
