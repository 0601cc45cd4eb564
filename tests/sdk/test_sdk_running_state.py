"""What explain says of pods that run."""

from __future__ import annotations

import pytest

from support.build import group, pod
from unisono.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod
from unisono.api.times import rfc3339
from unisono.api.verdict import Cause, Verdict
from unisono.cli.explaining import explanation_lines
from unisono.sdk.reasons.explaining import Explanation, name_lost_pods
from unisono.sdk.reasons.failures import FailedPod
from unisono.sdk.state.running import below_minimum, duration, restarts, silent, stall

NOW = 1_700_000_000.0


def restarted(name: str, times: int) -> Pod:
    made = pod(name, "j", node="n")
    end = ContainerStateTerminated(exit_code=137, reason="OOMKilled", finished_at=rfc3339(NOW - 90))
    made.status.container_statuses = [
        ContainerStatus(name="main", restart_count=times, last_state=ContainerState(terminated=end))
    ]
    return made


def test_a_rank_that_is_silent_while_others_write() -> None:
    notes = silent([("w-0", NOW - 5), ("w-1", NOW - 840), ("w-2", NOW - 7)], NOW)
    assert [str(note) for note in notes] == [
        "pod/w-1 has written nothing for 14 min: it may hang; others wrote 5 s ago"
    ]
    assert not silent([("w-0", NOW - 200), ("w-1", NOW - 220)], NOW)
    assert [str(note) for note in silent([("w-0", NOW - 400)], NOW)] == [
        "pod/w-0 has written nothing for 6 min: it may hang"
    ]


def steps(last: float, pause: float = 0.5) -> list[float]:
    return [NOW + last - pause * number for number in range(20, -1, -1)]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([steps(-80), steps(-80.004), steps(-80.5), steps(-79.999)], "all 4 silent for 79 s, rank 2 stopped first"),
        # All wrote the line of the step before: which one hangs is not known.
        ([steps(-80), steps(-80.004), steps(-80.002)], "all 3 silent for 80 s"),
        ([steps(-200)], "silent for 3 min"),
        ([steps(-80), steps(-5)], ""),
        ([steps(-50)] * 2, ""),
        # A line every 20 s: 80 s are no long pause, six minutes are.
        ([steps(-80, 20)] * 2, ""),
        ([steps(-360, 20)] * 2, "all 2 silent for 6 min"),
        ([[NOW - 100], [NOW - 100]], ""),
        ([steps(-80), []], ""),
        ([], ""),
    ],
)
def test_a_job_that_has_stopped_to_write(lines: list[list[float]], told: str) -> None:
    assert stall("t", {f"t-rank-{number}": each for number, each in enumerate(lines)}, NOW) == told


def test_restarts_are_told_with_how_the_last_one_ended() -> None:
    notes = restarts([restarted("w-0", 1), restarted("w-1", 5), pod("w-2", "j", node="n")], NOW)
    assert [str(note) for note in notes] == [
        "pod/w-1 was restarted 5 times, the last time 90 s ago after exit code 137 (OOMKilled)",
        "pod/w-0 was restarted once, the last time 90 s ago after exit code 137 (OOMKilled)",
    ]


def test_a_gang_below_its_minimum() -> None:
    pods = [pod("w-0", "j", node="n"), pod("w-1", "j", node="n", phase="Failed")]
    assert [str(note) for note in below_minimum([group("j", 2)], pods)] == [
        "podgroup/j is below its minimum: 1 of 2 pods run"
    ]
    assert not below_minimum([group("j", 1)], pods)


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0, 119, 120, 7199, 7200)] == ["0 s", "119 s", "2 min", "119 min", "2 h"]


def test_a_gang_that_lost_pods_waits_for_no_scheduler() -> None:
    """The first line names the pod that failed, and not what the scheduler says of pods that are not there."""

    def told(*failures: FailedPod) -> Explanation:
        verdicts = [Verdict(job="default/j", cause=Cause.TOO_FEW_PODS, message="w has 1 of 2")]
        made = Explanation("Job", "j", "job/j", "its phase is Running", verdicts, failures=list(failures))
        made.running = below_minimum([group("j", 2)], [pod("a", "j", node="n", phase="Running"), pod("b", "j")])
        name_lost_pods(made)
        return made

    lost = told(FailedPod("b", "main", 4, "exit code 4 (Error)", ending="exit code 4"))
    assert explanation_lines(lost)[0] == (
        "job/j does not wait: its phase is Running, and it is below its minimum: 1 of 2 pods run, because pod b "
        "failed: exit code 4."
    )
    assert [verdict.cause for verdict in told().verdicts] == [Cause.TOO_FEW_PODS]
