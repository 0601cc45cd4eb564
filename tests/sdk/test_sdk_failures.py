"""What explain says of pods that have failed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

from unisono.api.core import Pod
from unisono.api.decode import decode
from unisono.api.kinds import PODS
from unisono.cli.explaining import explanation_lines
from unisono.errors import ApiError
from unisono.kube.http import HttpClient
from unisono.sdk.reasons.explaining import Explanation
from unisono.sdk.reasons.failures import failed, failed_pods


class Logs:
    """A server with the logs of some pods; it refuses those of others."""

    def __init__(self, **texts: str) -> None:
        self.texts, self.asked = texts, list[tuple[str, dict[str, str]]]()

    async def stream(self, path: str, params: dict[str, str]) -> AsyncIterator[bytes]:
        name = path.split("/")[-2]
        self.asked.append((name, dict(params)))
        if name not in self.texts:
            raise ApiError("pods/log is not yours to read", code=403, reason="Forbidden")
        text = self.texts[name]
        if params.get("timestamps"):
            text = "".join(
                f"2026-01-01T00:00:00.{number:09}Z {line}\n" for number, line in enumerate(text.splitlines())
            )
        yield text.encode()


def pod(name: str, phase: str = "Failed", second: int = 0, **codes: int) -> Pod:
    statuses = [
        {
            "name": container,
            "state": {
                "terminated": {"exitCode": code, "reason": "Error", "finishedAt": f"2026-01-01T00:00:{second:02}Z"}
            },
        }
        for container, code in codes.items()
    ]
    value = {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"containers": [{"name": container} for container in codes or ("main",)]},
        "status": {"phase": phase, "containerStatuses": statuses},
    }
    return decode(PODS, value).obj


async def told(server: Logs, *pods: Pod) -> list[str]:
    found = await failed_pods(cast(HttpClient, server), pods)
    return explanation_lines(Explanation("Job", "train", "job/train", "its phase is Aborted", failures=found))


async def test_a_failed_job_shows_exit_code_last_lines_and_where_the_rest_is() -> None:
    server = Logs(b="Traceback\nValueError: no data\n")
    assert await told(server, pod("a", "Succeeded", main=0), pod("b", side=0, main=3)) == [
        "job/train does not wait: its phase is Aborted; pod b failed: ValueError: no data (exit code 3).",
        "  pod/b failed: exit code 3 (Error)",
        "    | Traceback",
        "    | ValueError: no data",
        "  all lines: unisono logs job/train",
    ]
    ((_, asked),) = server.asked
    assert asked["container"] == "main"
    assert int(asked["tailLines"]) > 1


async def test_who_failed_first_comes_first_and_many_are_counted() -> None:
    names = [f"p{number}" for number in range(6)]
    server = Logs(**dict.fromkeys(names, "lost"))
    lines = await told(server, *(pod(name, second=30 - number, main=1) for number, name in enumerate(names)))
    assert [line for line in lines[1:] if "failed" in line] == [
        "  pod/p5 failed: exit code 1 (Error)",
        "  pod/p4 failed: exit code 1 (Error)",
        "  pod/p3 failed: exit code 1 (Error)",
        "  and 3 more pods failed",
    ]
    assert len(server.asked) == 6


async def test_logs_that_may_not_be_read_leave_the_rest() -> None:
    assert "  pod/a failed: exit code 1 (Error)" in await told(Logs(), pod("a", main=1))


def test_an_evicted_pod_has_a_reason_and_no_container() -> None:
    evicted = pod("a")
    evicted.status.reason, evicted.status.message = "Evicted", "the node ran out of memory"
    found = failed(evicted)
    assert found is not None
    assert (found.container, found.exit_code) == ("", None)
    assert found.lines() == ["pod/a failed: Evicted: the node ran out of memory"]
    running: dict[str, Any] = {"phase": "Running"}
    assert failed(pod("b", **running)) is None


async def test_a_line_that_complains_of_nothing_is_not_taken_for_the_cause() -> None:
    server = Logs(a="progress: 3/3\n", b="train.py: error: no such file\n", c="")
    pods = [pod("a", main=3), pod("b", main=2), pod("c", main=139)]
    causes = {each.name: each.cause for each in await failed_pods(cast(HttpClient, server), pods)}
    assert causes == {
        "a": "exit code 3; its last line is: progress: 3/3",
        "b": "train.py: error: no such file (exit code 2)",
        "c": "exit code 139 (SIGSEGV)",
    }


def test_a_container_without_enough_memory_says_what_its_limit_is() -> None:
    starved = pod("a", main=137)
    starved.status.container_statuses[0].state.terminated.reason = "OOMKilled"
    found = failed(starved)
    assert found is not None
    assert found.cause.startswith("OOMKilled: it needed more memory than its limit; give it more with --memory")
    starved.spec.containers[0].resources.limits = {"memory": "60Mi"}
    found = failed(starved)
    assert found is not None
    assert found.cause.startswith("OOMKilled: it needed more memory than its limit of 60Mi; give it more")
