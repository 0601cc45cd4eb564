"""Which pods of a job failed and why, and in one sentence: the process that failed first, and its cause."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from unisono.api.pod_states import PodEnd, container_statuses, pod_end
from unisono.errors import ApiError
from unisono.sdk.follow.log_lines import LogSelection, short_name
from unisono.sdk.jobs.program import TASK
from unisono.sdk.state.views import end_text, steps_of_line

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.kube.http import HttpClient
    from unisono.sdk.state.observing import Observation

# What a program said and how it ended, as the cause of a failure: its exception, exit code or signal (pure).

_TRACEBACK = "Traceback (most recent call last):"
# PyTorch puts the rank before each line of a traceback.
_RANK = re.compile(r"^\[rank\d+\]:\s?")
# Exception groups are drawn as trees.
_TREE = re.compile(r"^\s*[|+] (?:Exception Group )?")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?::\s|:?$)")
# How programs complain that another one is gone: they followed, and did not fail by themselves.
_LOST_PEER = re.compile(
    r"ConnectionReset|ConnectionRefused|ConnectionAborted|BrokenPipe|EOFError|Connection (?:closed|reset|refused)"
    r"|DistBackendError|DistNetworkError|DistStoreError|[Gg]loo|NCCL|ncclRemoteError|socket ?Timeout|TCPStore"
    r"|^srun: error: "
    r"|[Ll]ost (?:connection|peer)|peer (?:has )?(?:closed|exited|failed)|recvValue|MPI_Abort|coordination service",
)
# How programs without a traceback complain: "x: error: ...", "bash: line 1: foo: command not found". Before a number
# such a word is a measure: "validation error 0.12".
_COMPLAINT = re.compile(
    r"\b(?:error|fatal|panic(?:ked)?|abort(?:ed|ing)?|fail(?:ed|ure)?|exception|assert(?:ion)?|denied|refused|invalid"
    r"|unknown|illegal|usage|cannot|can't|could not|couldn't|unable|not found|no such|not permitted|not allowed|missing"
    r"|required|expected|unrecognized|unsupported|overflow|out of|killed|terminat\w+|segmentation|core dumped"
    r"|timed out|timeout)\b(?!\s*[:=]?\s*[\d.])|[A-Z]\w*(?:Error|Exception)\b",
    re.IGNORECASE,
)
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class LastWords:
    """The end of a program's log.

    Attributes:
        text: the exception's line, else the last line; empty where it wrote nothing.
        at: when that line was written, RFC 3339; empty where it is not known.
        exception: it is the last line of a traceback.
        complaint: it says that something is wrong, and not only how far the program was.
    """

    text: str = ""
    at: str = ""
    exception: bool = False
    complaint: bool = False

    @property
    def lost_peer(self) -> bool:
        """The program complains that another process is gone."""
        return bool(_LOST_PEER.search(self.text))


def last_words(lines: Iterable[tuple[str, str]]) -> LastWords:
    """The cause that a log ends with.

    Args:
        lines: time and text of the last lines.
    """
    raised = LastWords()
    plain = LastWords()
    inside = False
    for at, raw in lines:
        text = _RANK.sub("", raw.rstrip())
        if text.strip():
            plain = LastWords(text.strip()[:_LONGEST], at)
        text = _TREE.sub("", text)
        if text.lstrip().startswith(_TRACEBACK):
            inside = True
        elif inside and text and not text[0].isspace() and _EXCEPTION.match(text):
            inside, raised = False, LastWords(text[:_LONGEST], at, exception=True, complaint=True)
    return raised if raised.exception else replace(plain, complaint=_complains(plain.text))


def _complains(line: str) -> bool:
    return steps_of_line(line) is None and bool(_COMPLAINT.search(line))


def signal_of(exit_code: int | None) -> str:
    """Name of the signal that an exit code stands for, such as ``SIGSEGV`` for 139; empty for other codes."""
    if exit_code is None or not 128 < exit_code < 128 + 65:
        return ""
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return ""


def ending_text(exit_code: int | None, reason: str) -> str:
    """``exit code 3``, ``exit code 139 (SIGSEGV)``, ``OOMKilled``, or the reason that the node gave."""
    if reason == "DeadlineExceeded":
        return "it ran longer than its time limit (DeadlineExceeded)"
    if reason not in ("", "Error", "Completed"):
        return reason
    if exit_code is None:
        return reason or "no exit code"
    name = signal_of(exit_code)
    return f"exit code {exit_code}" + (f" ({name})" if name else "")


def first_of(ends: Sequence[tuple[str, LastWords]]) -> int:
    """Index of the process that failed first.

    Those that only lost another process come last, whatever the clock says. An exception's line tells the moment more
    exactly than the end of its container, which is known to the second and comes after all clean-up.

    Args:
        ends: of each process the end of its container, RFC 3339 in UTC, and its last words.
    """

    def order(number: int) -> tuple[bool, str]:
        ended, words = ends[number]
        # RFC 3339 in UTC sorts as text once the Z is gone: "07" comes before "07.1".
        return words.lost_peer, (words.at if words.exception and words.at else ended).rstrip("Z")

    return min(range(len(ends)), key=order)


LOOP = "CrashLoopBackOff"
NOT_STARTED = "StartError"
"""Reasons of nodes: a container waits before it is started again; a program cannot even be started."""
_OOM = "OOMKilled"
_MORE_MEMORY = "give it more with --memory, or resources.limits.memory in a manifest"
# Pods whose logs are read, and lines of each: enough for the end of a traceback.
_PODS = 16
_LINES = 60
# Pods whose last lines are shown, and how many.
_SHOWN_PODS = 3
_SHOWN_LINES = 8


@dataclass(frozen=True, slots=True)
class FailedPod:
    """How a pod failed.

    Attributes:
        name: of the pod.
        container: the first of its containers that failed; empty where the pod failed without one, by an eviction.
        exit_code: of that container.
        reason: in words: ``exit code 3 (Error)``.
        log: the last lines of that container; empty where they cannot be read.
        ending: in short: ``exit code 139 (SIGSEGV)``, ``OOMKilled``.
        said: the exception, or the last line of the log.
        exception: ``said`` is the last line of a traceback.
        complaint: ``said`` says that something is wrong.
        limit: the container's memory limit; empty where it has none.
        restarts: of a container that is started again and again; 0 for pods that have failed for good.
    """

    name: str
    container: str
    exit_code: int | None
    reason: str
    log: tuple[str, ...] = ()
    ending: str = ""
    said: str = ""
    exception: bool = False
    complaint: bool = False
    limit: str = ""
    restarts: int = 0

    def json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For people."""
        often = f" {self.restarts + 1} times" if self.restarts else ""
        return [f"pod/{self.name} failed{often}: {self.reason}", *(f"  | {line}" for line in self.log)]

    @property
    def cause(self) -> str:
        """``ValueError: no data (exit code 1)``; of a program that did not complain, how it ended and its last line."""
        if self.ending == _OOM:
            of = f" of {self.limit}" if self.limit else ""
            return f"{_OOM}: it needed more memory than its limit{of}; {_MORE_MEMORY}"
        if not self.said:
            return self.ending
        return f"{self.said} ({self.ending})" if self.complaint else f"{self.ending}; its last line is: {self.said}"


def failed(pod: Pod) -> FailedPod | None:
    """How the pod failed, without its log; None where it has not."""
    if pod.status.phase != "Failed":
        return None
    statuses = container_statuses(pod)
    worst = next(
        (each.name for each in statuses if each.state and each.state.terminated and each.state.terminated.exit_code), ""
    )
    end = pod_end(pod)
    ending = ending_text(end.exit_code, end.reason)
    if end.message and (not worst or end.reason == NOT_STARTED):
        ending = f"{ending}: {end.message}"
    code = end.exit_code if worst else None
    return FailedPod(pod.metadata.name, worst, code, end_text(end), ending=ending, limit=_memory_limit(pod, worst))


def looping(pod: Pod) -> FailedPod | None:
    """How the container that the pod starts again and again ended the last time, without its log; None without one."""
    statuses = container_statuses(pod)
    for status in statuses:
        waiting = status.state.waiting if status.state is not None else None
        last = status.last_state.terminated if status.last_state is not None else None
        if waiting is None or waiting.reason != LOOP or last is None:
            continue
        end = PodEnd(pod.metadata.name, "Running", last.exit_code, last.reason or "", last.message or "")
        ending = ending_text(end.exit_code, end.reason)
        if end.message:
            ending = f"{ending}: {end.message}"
        # The first restart is not counted before it has happened.
        restarts = max(status.restart_count or 0, 1)
        limit = _memory_limit(pod, status.name)
        return FailedPod(
            end.name, status.name, end.exit_code, end_text(end), ending=ending, limit=limit, restarts=restarts
        )
    return None


def _memory_limit(pod: Pod, container: str) -> str:
    specs = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    limits = next((each.resources.limits for each in specs if each.name == container and each.resources), None)
    return str((limits or {}).get("memory") or "")


async def failed_pods(client: HttpClient, pods: Sequence[Pod]) -> list[FailedPod]:
    """All pods that failed, the one that failed first before all others, with what they wrote last.

    Pods that were ended with their job have not failed, unless nothing else has.
    """
    failures = [(pod, told) for pod in pods if (told := failed(pod))]
    failures = [each for each in failures if not _was_ended(each[0], each[1])] or failures
    return await _with_logs(client, failures)


async def looping_pods(client: HttpClient, pods: Sequence[Pod]) -> list[FailedPod]:
    """All pods with a container that is started again and again, in the same order, with what it wrote last."""
    return await _with_logs(client, [(pod, told) for pod in pods if (told := looping(pod))])


async def _with_logs(client: HttpClient, found: list[tuple[Pod, FailedPod]]) -> list[FailedPod]:
    found = sorted(found, key=lambda each: _ended(each[0]))
    read, rest = found[:_PODS], [told for _, told in found[_PODS:]]
    if not read:
        return []
    logs = await asyncio.gather(*(_log(client, pod, told) for pod, told in read))
    words = [last_words(log) for log in logs]
    first = first_of([(_ended(pod), said) for (pod, _), said in zip(read, words, strict=True)])
    order = [first, *(number for number in range(len(read)) if number != first)]
    return [
        _with_log(read[number][1], logs[number], words[number], shown=place < _SHOWN_PODS)
        for place, number in enumerate(order)
    ] + rest


def _with_log(told: FailedPod, log: Sequence[tuple[str, str]], words: LastWords, *, shown: bool) -> FailedPod:
    lines = tuple(text for _, text in log[-_SHOWN_LINES:]) if shown else ()
    return replace(told, log=lines, said=words.text, exception=words.exception, complaint=words.complaint)


def _was_ended(pod: Pod, told: FailedPod) -> bool:
    """Whether the pod is being deleted and ended by that: by SIGTERM or SIGKILL."""
    return bool(pod.metadata.deletion_timestamp) and told.exit_code in (143, 137) and told.ending != _OOM


async def _log(client: HttpClient, pod: Pod, told: FailedPod) -> list[tuple[str, str]]:
    """Time and text of the last lines of the container that failed."""
    from unisono.sdk.follow.following import read_pods  # brings all that follows logs along

    if not told.container:
        return []
    selection = LogSelection(container=told.container, params={"tailLines": str(_LINES), "timestamps": "true"})
    try:
        lines = [line.text async for line in read_pods(client, [pod], selection)]
    except ApiError:
        # Users who may read pods may not always read logs; the rest of the answer is true without them.
        return []
    return [(at, text) for at, _, text in (line.partition(" ") for line in lines)]


def _ended(pod: Pod) -> str:
    """When the pod's first failed container ended; RFC 3339 sorts as text."""
    statuses = container_statuses(pod)
    states = [state for each in statuses for state in (each.state, each.last_state)]
    ends = [state.terminated for state in states if state and state.terminated]
    return min((str(end.finished_at or "") for end in ends if end.exit_code), default="")


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
    failures = await failed_pods(client, seen.pods)
    if not failures:
        return None
    view, first = seen.view, failures[0]
    several = sum(task.wanted for task in view.tasks) > 1
    return Failure(
        process_name(first.name, view.name) if several else "",
        first.cause,
        len(failures) - 1,
        read_on,
    )


def process_name(pod: str, job: str) -> str:
    """``rank 2`` of ``train-rank-2``, ``worker-1`` of ``train-worker-1``."""
    short = short_name(pod, job)
    task, _, number = short.rpartition("-")
    return f"{task} {number}" if task == TASK else short
