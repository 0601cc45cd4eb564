"""``scontrol``, and what a batch waits for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from unisono.api.base import ObjectMeta
from unisono.api.groups.batch import Job, JobState, JobStatus
from unisono.api.kinds import JOBS
from unisono.cli.commands.sbatch import _room_for_one, _state
from unisono.cli.main import cli
from unisono.cli.options import Where
from unisono.cli.slurm.batches import BASE_NAME, JOB_ID
from unisono.cli.slurm.selecting import jobs_called
from unisono.errors import NotFound
from unisono.sdk.follow.events import Target

PHASES = {"a": "Completed", "b": "Failed", "c": "Running", "s-1": "Completed", "s-2": "Pending"}


class Server:
    """Answers for jobs of these phases; the number of each is its place."""

    def __init__(self) -> None:
        self.jobs = [
            Job(
                metadata=ObjectMeta(name=name, labels={JOB_ID: str(100 + number), BASE_NAME: name.partition("-")[0]}),
                status=JobStatus(state=JobState(phase=phase)),
            )
            for number, (name, phase) in enumerate(PHASES.items())
        ]

    async def get(self, kind: Any, name: str, namespace: str) -> Job:
        for job in self.jobs:
            if job.metadata.name == name:
                return job
        raise NotFound(f"there is no job {name}")

    async def list(self, kind: Any, namespace: str) -> Any:
        return SimpleNamespace(items=self.jobs)


@pytest.mark.parametrize(
    ("name", "found"), [("a", ["a"]), ("job/a", ["a"]), ("102", ["c"]), ("s", ["s-1", "s-2"]), ("s-1", ["s-1"])]
)
def test_jobs_go_by_name_number_and_array(name: str, found: list[str]) -> None:
    jobs = asyncio.run(jobs_called(Server(), "default", name))  # type: ignore[arg-type]
    assert [job.metadata.name for job in jobs] == found


@pytest.mark.parametrize(
    ("how", "name", "met"),
    [
        ("afterok", "a", True),
        ("afterok", "b", False),
        ("afterok", "c", None),
        ("afterok", "s", None),
        ("afterok", "100", True),
        ("afterany", "b", True),
        ("afternotok", "b", True),
        ("afternotok", "a", False),
        ("after", "c", True),
        ("singleton", "", None),
    ],
)
def test_dependencies(how: str, name: str, met: bool | None) -> None:
    assert asyncio.run(_state(Server(), "default", how, name, "s"))[0] is met  # type: ignore[arg-type]


def test_a_singleton_waits_for_jobs_of_its_own_name_alone() -> None:
    assert asyncio.run(_state(Server(), "default", "singleton", "", "a"))[0] is True  # type: ignore[arg-type]


def test_of_an_array_with_a_limit_no_more_elements_are_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server, waited = Server(), []

    @contextlib.asynccontextmanager
    async def connected(where: Where) -> AsyncIterator[Server]:
        yield server

    async def pass_on(seconds: float) -> None:
        waited.append(seconds)
        server.jobs[len(waited)].status = JobStatus(state=JobState(phase="Completed"))

    monkeypatch.setattr("unisono.cli.connection.connect", connected)
    monkeypatch.setattr("asyncio.sleep", pass_on)

    def wait(names: str, at_once: int) -> int:
        waited.clear()
        created = [Target(JOBS, "default", name) for name in names.split()]
        asyncio.run(_room_for_one(Where(), created, at_once))
        return len(waited)

    assert wait("c", 2) == 0
    assert wait("a b c", 2) == 0  # two have ended
    assert wait("c gone", 2) == 0  # deleted
    # c ends at the second look.
    assert wait("c s-2", 2) == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["show", "hostnames", "n[1-2],m"], 0, "n1\nn2\nm\n"),
        (["show", "hostlist", "n[1-2]"], 0, "n1,n2\n"),
        (["show", "slurmd"], 2, "there are job, jobs"),
        (["hold"], 2, "hold what?"),
        (["update", "JobId=a", "TimeLimit=5"], 2, "timelimit of a job that exists is not changed here"),
        (["update", "Partition=x"], 2, "moves a job to another queue"),
    ],
)
def test_words_of_scontrol(words: list[str], code: int, said: str) -> None:
    done = CliRunner().invoke(cli, ["scontrol", *words])
    assert done.exit_code == code
    assert said in done.output
