"""What "not found" adds: the name that was probably meant."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from unisono.api.kinds import JOBS, PODS, QUEUES
from unisono.cli.connection import begun, hint, tell_near_object
from unisono.errors import ApiError, NotFound
from unisono.kube.http import HttpClient


class Server:
    """Lists these names of each kind."""

    def __init__(self, status: int = 200, **names: list[str]) -> None:
        self.status, self.names, self.asked = status, names, list[str]()

    async def request(self, method: str, path: str, *, params: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(path)
        items = [{"metadata": {"name": name}} for name in self.names.get(path.rpartition("/")[2], [])]
        return self.status, {}, json.dumps({"items": items}).encode()


async def told(server: Server, error: ApiError) -> str:
    await tell_near_object(cast(HttpClient, server), error, "team")
    assert str(error) == error.message
    return error.message


async def test_the_nearest_object_of_the_kind_and_namespace_is_named() -> None:
    server = Server(jobs=["train", "other"])
    message = 'jobs.batch.volcano.sh "trian" not found'
    assert await told(server, NotFound(message)) == f"{message}; did you mean job/train?"
    assert server.asked == ["/apis/batch.volcano.sh/v1alpha1/namespaces/team/jobs"]


async def test_a_queue_within_another_refusal_is_looked_up() -> None:
    message = 'Job "x" is invalid: spec.queue: Invalid value: "reserch": unable to find job queue: ' + (
        'queue.scheduling.volcano.sh "reserch" not found'
    )
    answer = await told(Server(queues=["default", "research"]), ApiError(message))
    assert answer == f"{message}; did you mean queue/research?"


@pytest.mark.parametrize(
    "message",
    [
        'jobs.batch.volcano.sh "far-away" not found',
        'things.example.org "a" not found',
        "the server is busy",
        '"x" not found',
    ],
)
async def test_where_nothing_is_near_the_message_stays(message: str) -> None:
    assert await told(Server(jobs=["train"]), ApiError(message)) == message


async def test_a_list_that_is_refused_or_no_list_changes_nothing() -> None:
    message = 'jobs.batch.volcano.sh "trian" not found'
    assert await told(Server(403, jobs=["train"]), NotFound(message)) == message

    class Other(Server):
        async def request(self, *_: Any, **__: Any) -> tuple[int, dict[str, str], bytes]:
            return 200, {}, b"<html>"

    assert await told(Other(), NotFound(message)) == message


class Everywhere(Server):
    """Objects by path, each with its namespace and name."""

    async def request(self, method: str, path: str, *, params: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        found = self.names.get(path, [])
        items = [{"metadata": {"namespace": each.split("/")[0], "name": each.split("/")[1]}} for each in found]
        return 200, {}, json.dumps({"items": items}).encode()


ALL_JOBS, ALL_PODS = "/apis/batch.volcano.sh/v1alpha1/jobs", "/api/v1/pods"


@pytest.mark.parametrize(
    ("message", "objects", "told_then"),
    [
        (
            'jobs.batch.volcano.sh "long" not found',
            {ALL_JOBS: ["other/long"]},
            "there is job/long in namespace other: add -n other",
        ),
        (
            'pods "long" not found',
            {JOBS.path("team"): ["team/long"], PODS.path("team"): ["team/long-rank-0"]},
            "there is job/long",
        ),
        ('jobs.batch.volcano.sh "p-0" not found', {PODS.path("team"): ["team/p-0"]}, "there is pod/p-0"),
        ('jobs.batch.volcano.sh "p-0" not found', {ALL_PODS: ["b/p-0"]}, "there is pod/p-0 in namespace b: add -n b"),
        (
            'jobs.batch.volcano.sh "tra" not found',
            {JOBS.path("team"): ["team/train", "team/x"]},
            "did you mean job/train?",
        ),
    ],
)
async def test_what_is_of_another_kind_or_elsewhere_or_begins_so(
    message: str, objects: dict[str, list[str]], told_then: str
) -> None:
    assert await told(Everywhere(**objects), NotFound(message)) == f"{message}; {told_then}"


def test_several_that_begin_so_are_named() -> None:
    assert begun(JOBS, "tra", ["train", "tracker", "x"]) == "; names that begin so: tracker, train"
    assert begun(JOBS, "y", ["train"]) == ""


def test_queues_are_listed_where_none_is_near() -> None:
    assert hint(QUEUES, "gpu", ["default", "research"]) == "; queues are: default, research"
    assert hint(QUEUES, "gpu", [f"q{number}" for number in range(9)]).endswith("q5 and 3 more")
    assert hint(QUEUES, "gpu", []) == ""
    assert hint(JOBS, "gpu", ["a"]) == ""
    assert hint(PODS, "train-worker-1", ["train-worker-0"]) == ""
