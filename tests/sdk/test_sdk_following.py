"""The SDK follows objects to their end, also where watches lag, pods come and go, and logs come slowly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest

from support.memory import MemoryClient
from unisono.api.decode import decode
from unisono.api.kind import Kind
from unisono.api.kind_families import (
    BATCH_JOBS,
    DEPLOYMENTS,
    JOB_FLOWS,
    JOB_SETS,
    PYTORCH_JOBS,
    RAY_CLUSTERS,
    RAY_JOBS,
    REPLICA_SETS,
)
from unisono.api.kinds import JOBS, POD_GROUPS, PODS
from unisono.errors import ApiError, NotFound
from unisono.sdk.follow import following, log_lines
from unisono.sdk.follow.events import LogFailed, LogText, Observed, Target
from unisono.sdk.follow.following import follow, follow_logs
from unisono.sdk.follow.log_lines import LogSelection
from unisono.sdk.overview.components import SchedulerHealth
from unisono.sdk.state.views import JobView

ALL = LogSelection(all_containers=True)
LABELS = {
    JOBS.resource: {"volcano.sh/job-name": "j"},
    PYTORCH_JOBS.resource: {"training.kubeflow.org/job-name": "j", "training.kubeflow.org/replica-type": "worker"},
    RAY_CLUSTERS.resource: {"ray.io/cluster": "c"},
}
DONE = {"state": {"phase": "Completed"}}
RUNNING = {"state": {"phase": "Running"}}
SUCCEEDED = {"conditions": [{"type": "Succeeded", "status": "True"}]}


class Forbidden(ApiError):
    """The user may not read it."""

    code, reason = 403, "Forbidden"


class Server(MemoryClient):
    """Kinds in ``held`` tell nothing by watch until ``let_go``; logs say one line, and the next when ``written``.

    Those of pods in ``slow`` begin some turns of the loop later, and those of pods in ``hanging`` never.
    """

    def __init__(self, *held: Kind[Any]) -> None:
        super().__init__()
        self.held, self.let_go, self.written = held, asyncio.Event(), asyncio.Event()
        self.absent: dict[str, type[Exception]] = {}
        self.log_requests: list[dict[str, str]] = []
        self.slow: dict[str, int] = {}
        self.hanging: set[str] = set()
        self.written.set()

    async def list(self, kind: Any, namespace: str | None = None, **options: Any) -> Any:
        if error := self.absent.get(kind.resource):
            raise error(f"{kind.resource} not here")
        return await super().list(kind, namespace, **options)

    async def watch(self, kind: Any, namespace: str | None = None, **options: Any) -> AsyncIterator[Any]:
        if kind in self.held:
            await self.let_go.wait()
        async for event in super().watch(kind, namespace, **options):
            yield event

    async def stream(self, path: str, params: Any) -> AsyncIterator[bytes]:
        pod = path.split("/")[-2]
        self.log_requests.append({"pod": pod, **params})
        for _ in range(self.slow.get(pod, 0)):
            await asyncio.sleep(0)
        if pod in self.hanging:
            await asyncio.Event().wait()
        yield b"first\n"
        await self.written.wait()
        yield b"last\n"

    def make(self, kind: Kind[Any], name: str, status: Any = None, owner: Any = None, **spec: Any) -> Any:
        meta: dict[str, Any] = {"name": name, "namespace": "default"}
        if owner is not None:
            reference = {"apiVersion": "v1", "kind": "Any", "name": "any", "uid": owner.metadata.uid}
            meta["ownerReferences"] = [reference]
        return self.put(kind, decode(kind, {"metadata": meta, "spec": spec, "status": status or {}}).obj)

    def pod(
        self,
        name: str,
        phase: str,
        owner: Any = None,
        *,
        node: str | None = None,
        code: int = 0,
        started: str = "",
        labels: dict[str, str] | None = None,
        containers: Iterable[str] = ("main",),
    ) -> Any:
        ended = phase in ("Succeeded", "Failed")
        state = {"terminated": {"exitCode": code}} if ended else {"running": {}}
        status: dict[str, Any] = {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}
        if started:
            status["startTime"] = f"2026-01-02T00:00:{started}Z"
        spec = {"containers": [{"name": each} for each in containers], **({"nodeName": node} if node else {})}
        value: dict[str, Any] = {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status}
        value["metadata"]["labels"] = LABELS[JOBS.resource] if labels is None else labels
        if owner is not None:
            reference = {"apiVersion": "v1", "kind": "Any", "name": "any", "uid": owner.metadata.uid}
            value["metadata"]["ownerReferences"] = [reference]
        return self.put(PODS, decode(PODS, value).obj)


class Reader:
    """Reads what following tells."""

    def __init__(self, server: Server, *targets: Target, logs: LogSelection | None = None, pause: float = 0.0) -> None:
        self.lines: list[str] = []
        self.failures: list[str] = []
        self.views: dict[str, list[JobView]] = {target.name: [] for target in targets}
        self._news = asyncio.Event()
        self._events = follow(server, targets, until=lambda view: view.stopped, logs=logs, pause=pause)  # type: ignore[arg-type]
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            async for event in self._events:
                match event:
                    case Observed(target, observation):
                        self.views[target.name].append(observation.view)
                    case LogText(pod=pod, container=container, text=text):
                        self.lines.append(f"{pod.metadata.name}/{container} {text}")
                    case LogFailed(pod=pod, error=error):
                        self.failures.append(f"{pod.metadata.name}: {error.message}")
                self._news.set()
        finally:
            await self._events.aclose()
            self._news.set()

    async def until(self, met: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not met():
                assert not self._task.done(), self._task
                self._news.clear()
                await self._news.wait()

    async def end(self) -> None:
        async with asyncio.timeout(60):
            await self._task

    def phases(self, name: str = "j") -> list[str]:
        return list(dict.fromkeys(view.phase for view in self.views[name]))


JOB = Target(JOBS, "default", "j")


async def settle() -> None:
    for _ in range(500):
        await asyncio.sleep(0)


@pytest.fixture
def short_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "DRAIN_SECONDS", 0.01)
    monkeypatch.setattr(log_lines, "TURN_SECONDS", 0.01)
    monkeypatch.setattr(log_lines, "END_SECONDS", 600.0)


async def test_the_last_view_has_pods_whose_end_is_heard_after_the_end_of_their_job() -> None:
    server = Server(PODS)
    job = server.make(JOBS, "j", RUNNING)
    reader = Reader(server, JOB, logs=ALL)
    await reader.until(lambda: reader.views["j"])
    server.pod("j-t-0", "Failed", job, code=3)
    server.make(JOBS, "j", DONE)
    await settle()
    assert reader.phases() == ["Running"], "the end is told before it is complete"
    server.let_go.set()
    await reader.end()
    assert reader.phases() == ["Running", "Completed"]
    assert [end.exit_code for end in reader.views["j"][-1].ends] == [3]
    assert reader.lines == ["j-t-0/main first", "j-t-0/main last"]


@pytest.mark.usefixtures("short_drain")
@pytest.mark.parametrize(("phase", "whole"), [("Succeeded", True), ("Running", False)])
async def test_a_slow_log_is_read_to_its_end_if_it_has_one(phase: str, whole: bool) -> None:
    """A process that outlives its job may never end its log."""
    server = Server()
    server.written.clear()
    server.pod("j-t-0", phase, server.make(JOBS, "j", DONE))
    if whole:
        asyncio.get_running_loop().call_later(0.1, server.written.set)
    reader = Reader(server, JOB, logs=ALL)
    await reader.end()
    assert ("j-t-0/main last" in reader.lines) is whole


@pytest.mark.usefixtures("short_drain")
@pytest.mark.parametrize(("kind", "done"), [(JOBS, DONE), (PYTORCH_JOBS, SUCCEEDED)], ids=["Volcano Job", "PyTorchJob"])
async def test_a_pod_that_starts_after_the_end_of_its_job_is_read(kind: Kind[Any], done: Any) -> None:
    """A master may be done before its last worker runs."""
    server, labels = Server(), LABELS[kind.resource]
    job = server.make(kind, "j", done)
    server.pod("j-worker-0", "Pending", job, node="n1", labels=labels)
    reader = Reader(server, Target(kind, "default", "j"), logs=ALL)
    await reader.until(lambda: reader.views["j"])
    await settle()
    server.written.clear()
    server.pod("j-worker-0", "Running", job, node="n1", labels=labels)
    await reader.until(lambda: reader.lines)
    server.pod("j-worker-0", "Succeeded", job, node="n1", labels=labels)
    asyncio.get_running_loop().call_later(0.1, server.written.set)
    await reader.end()
    assert reader.lines == ["j-worker-0/main first", "j-worker-0/main last"]


@pytest.mark.usefixtures("short_drain")
async def test_the_first_line_of_a_log_may_come_late() -> None:
    """A process may need longer to write its first line than a log may be silent in its middle."""
    server = Server()
    good, let_go = server.stream, asyncio.Event()

    async def stream(path: str, params: Any) -> AsyncIterator[bytes]:
        await let_go.wait()
        async for chunk in good(path, params):
            yield chunk

    server.stream = stream  # type: ignore[method-assign]
    server.pod("j-t-0", "Running", server.make(JOBS, "j", DONE))
    asyncio.get_running_loop().call_later(0.1, let_go.set)
    reader = Reader(server, JOB, logs=ALL)
    await reader.end()
    assert reader.lines == ["j-t-0/main first", "j-t-0/main last"]


def of_pods(lines: Iterable[str]) -> list[str]:
    return [line.partition("/")[0] for line in lines]


@pytest.mark.parametrize(
    ("pods", "order"),
    [
        pytest.param([("a", "Succeeded", "02"), ("b", "Succeeded", "01")], ["b", "b", "a", "a"], id="by start"),
        pytest.param([("a", "Succeeded", "01"), ("b", "Failed", "01")], ["a", "a", "b", "b"], id="by last change"),
        pytest.param([("b", "Succeeded", "01"), ("a", "Failed", "01")], ["b", "b", "a", "a"], id="not by name"),
        pytest.param([("a", "Running", "02"), ("b", "Succeeded", "01")], ["b", "b", "a", "a"], id="the past first"),
        pytest.param([("a", "Running", "01"), ("b", "Succeeded", "01")], ["b", "b", "a", "a"], id="in the same second"),
    ],
)
@pytest.mark.parametrize("slow", ["a", "b"])
async def test_what_is_past_is_told_in_the_order_in_which_pods_started(
    pods: list[tuple[str, str, str]], order: list[str], slow: str
) -> None:
    """All logs are asked for at once, and any of them may answer first."""
    server = Server()
    server.slow[slow] = 200
    job = server.make(JOBS, "j", DONE)
    for name, phase, started in pods:
        server.pod(name, phase, job, started=started)
    reader = Reader(server, JOB, logs=ALL)
    await reader.end()
    assert of_pods(reader.lines) == order


async def test_a_pod_that_has_ended_comes_before_one_that_is_heard_of_later() -> None:
    server = Server()
    server.slow["a"] = 2000
    job = server.make(JOBS, "j", RUNNING)
    server.pod("a", "Running", job, started="01")
    reader = Reader(server, JOB, logs=ALL)
    await reader.until(lambda: server.log_requests)
    server.pod("a", "Succeeded", job, started="01")
    server.pod("b", "Running", job, started="02")
    await reader.until(lambda: len(reader.lines) == 4)
    assert of_pods(reader.lines) == ["a", "a", "b", "b"]
    server.make(JOBS, "j", DONE)
    await reader.end()


async def test_live_logs_do_not_wait_for_each_other() -> None:
    server = Server()
    server.hanging.add("a")
    job = server.make(JOBS, "j", RUNNING)
    for name in ("a", "b"):
        server.pod(name, "Running", job, started="01")
    reader = Reader(server, JOB, logs=ALL)
    await reader.until(lambda: of_pods(reader.lines) == ["b", "b"])


@pytest.mark.usefixtures("short_drain")
async def test_logs_that_hang_do_not_keep_later_ones_from_being_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "END_SECONDS", 0.05)
    server = Server()
    server.hanging |= {"a", "b"}
    job = server.make(JOBS, "j", DONE)
    for name, phase in (("a", "Succeeded"), ("b", "Succeeded"), ("c", "Succeeded"), ("d", "Running")):
        server.pod(name, phase, job, started="01")
    reader = Reader(server, JOB, logs=ALL)
    await reader.end()
    assert of_pods(reader.lines) == ["c", "c", "d", "d"]


@pytest.mark.usefixtures("short_drain")
async def test_a_pod_without_a_node_is_not_waited_for_longer_than_a_moment() -> None:
    server = Server()
    server.pod("j-t-0", "Pending", server.make(JOBS, "j", DONE))
    reader = Reader(server, JOB, logs=ALL)
    await reader.end()
    assert reader.lines == []


@pytest.mark.usefixtures("short_drain")
async def test_a_pod_that_is_deleted_before_it_starts_is_not_waited_for() -> None:
    server = Server()
    server.pod("j-t-0", "Pending", server.make(JOBS, "j", DONE), node="n1")
    reader = Reader(server, JOB, logs=ALL)
    await reader.until(lambda: reader.views["j"])
    server.remove(PODS, "default/j-t-0")
    await reader.end()
    assert reader.lines == []


async def test_the_log_of_a_pod_that_is_deleted_between_two_looks_is_read_by_its_uid() -> None:
    server = Server()
    job = server.make(JOBS, "j", RUNNING)
    reader = Reader(server, JOB, logs=ALL, pause=0.05)
    await reader.until(lambda: reader.views["j"])
    pod = server.pod("j-t-0", "Succeeded", job)
    await settle()
    server.remove(PODS, pod.key)
    server.pod("other", "Succeeded")
    server.make(JOBS, "j", DONE)
    await reader.end()
    assert reader.lines == ["j-t-0/main first", "j-t-0/main last"]
    assert [request["uid"] for request in server.log_requests] == [pod.metadata.uid]


async def test_a_deleted_pod_finds_its_job_through_an_owner_that_is_heard_of_later() -> None:
    server = Server(RAY_CLUSTERS)
    job = server.make(RAY_JOBS, "j", {"jobDeploymentStatus": "Running"})
    reader = Reader(server, Target(RAY_JOBS, "default", "j"), logs=ALL)
    await reader.until(lambda: reader.views["j"])
    cluster = server.make(RAY_CLUSTERS, "c", owner=job)
    pod = server.pod("c-head", "Succeeded", cluster, labels=LABELS[RAY_CLUSTERS.resource])
    await settle()
    server.remove(PODS, pod.key)
    await settle()
    server.let_go.set()
    await reader.until(lambda: reader.lines)
    server.make(RAY_JOBS, "j", {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"})
    await reader.end()
    assert reader.lines == ["c-head/main first", "c-head/main last"]


async def test_a_job_that_is_deleted_before_its_end_says_so_and_keeps_the_ends_of_its_pods() -> None:
    server = Server()
    job = server.make(JOBS, "j", RUNNING)
    pod = server.pod("j-t-0", "Failed", job, code=3)
    reader = Reader(server, JOB)
    await reader.until(lambda: reader.views["j"])
    server.remove(JOBS, job.key)
    server.remove(PODS, pod.key)
    await reader.end()
    last = reader.views["j"][-1]
    assert (last.phase, last.message) == ("Deleted", "deleted before its end was seen")
    assert [end.exit_code for end in last.ends] == [3]


async def test_a_job_that_ends_and_is_deleted_between_two_looks_has_ended() -> None:
    server = Server()
    job = server.make(JOBS, "j", RUNNING)
    reader = Reader(server, JOB, pause=0.05)
    await reader.until(lambda: reader.views["j"])
    server.make(JOBS, "j", DONE)
    await settle()
    server.remove(JOBS, job.key)
    await reader.end()
    assert reader.phases() == ["Running", "Completed"]


async def test_a_job_of_the_same_name_is_another_job() -> None:
    server = Server()
    job = server.make(JOBS, "j", RUNNING)
    reader = Reader(server, JOB)
    await reader.until(lambda: reader.views["j"])
    server.remove(JOBS, job.key)
    server.make(JOBS, "j", RUNNING)
    await reader.end()
    assert reader.phases() == ["Running", "Deleted"]


async def test_a_job_that_is_deleted_before_it_is_followed_has_an_end() -> None:
    server = Server()
    job = server.make(JOBS, "j", RUNNING)
    server.remove(JOBS, job.key)
    reader = Reader(server, Target(JOBS, "default", "j", job))
    await reader.end()
    assert reader.phases() == ["Deleted"]


async def test_a_job_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(NotFound):
        await Reader(Server(), JOB).end()


@pytest.mark.parametrize("kind", [JOBS, PODS])
async def test_targets_and_pods_that_may_not_be_read_are_an_error(kind: Kind[Any]) -> None:
    server = Server()
    server.make(JOBS, "j", RUNNING)
    server.absent[kind.resource] = Forbidden
    with pytest.raises(Forbidden):
        await Reader(server, JOB).end()


async def test_kinds_that_are_not_served_have_no_objects() -> None:
    server = Server()
    server.absent = {POD_GROUPS.resource: NotFound, JOB_SETS.resource: NotFound, REPLICA_SETS.resource: Forbidden}
    job = server.make(BATCH_JOBS, "b")
    deployment = server.make(DEPLOYMENTS, "d")
    targets = [Target(BATCH_JOBS, "default", "b"), Target(DEPLOYMENTS, "default", "d")]
    reader = Reader(server, *targets, logs=ALL)
    await reader.until(lambda: reader.views["b"])
    server.remove(DEPLOYMENTS, deployment.key)
    server.make(BATCH_JOBS, "b", {"conditions": [{"type": "Complete", "status": "True"}]}, job)
    await reader.end()
    assert reader.phases("b")[-1] == "Completed"


async def test_an_object_without_an_end_is_followed_until_it_is_deleted() -> None:
    server = Server()
    deployment = server.make(DEPLOYMENTS, "d")
    replicas = server.make(REPLICA_SETS, "r", owner=deployment)
    server.pod("r-0", "Running", replicas)
    reader = Reader(server, Target(DEPLOYMENTS, "default", "d"), logs=ALL)
    await reader.until(lambda: len(reader.lines) == 2)
    server.pod("r-1", "Running", replicas)
    await reader.until(lambda: len(reader.lines) == 4)
    server.remove(DEPLOYMENTS, deployment.key)
    await reader.end()
    assert reader.views["d"] == []
    assert {line.split("/")[0] for line in reader.lines} == {"r-0", "r-1"}


async def test_targets_of_several_kinds_are_followed_until_the_last_has_ended() -> None:
    server = Server()
    job = server.make(JOBS, "j", DONE)
    server.pod("j-t-0", "Succeeded", job)
    flow = server.make(JOB_FLOWS, "f", {"state": {"phase": "Running"}})
    part = server.make(JOBS, "f-a", RUNNING, flow)
    server.pod("f-a-t-0", "Running", part, labels={"volcano.sh/job-name": "f-a"})
    plain = server.pod("p", "Running", labels={})
    targets = [JOB, Target(JOB_FLOWS, "default", "f"), Target(PODS, "default", "p")]
    reader = Reader(server, *targets, logs=ALL)
    await reader.until(lambda: len(reader.lines) == 6)
    server.pod("p", "Succeeded", labels={})
    await reader.until(lambda: reader.phases("p")[-1] == "Completed")
    server.make(JOB_FLOWS, "f", {"state": {"phase": "Succeed"}})
    await reader.end()
    assert {name: reader.phases(name)[-1] for name in ("j", "f", "p")} == dict.fromkeys(("j", "f", "p"), "Completed")
    assert reader.views["p"][-1].uid == plain.metadata.uid


async def test_containers_are_all_of_a_pod_or_one() -> None:
    server = Server()
    server.pod("j-t-0", "Succeeded", server.make(JOBS, "j", DONE), containers=("main", "side"))
    every = Reader(server, JOB, logs=ALL)
    await every.end()
    assert {line.split()[0] for line in every.lines} == {"j-t-0/main", "j-t-0/side"}
    for container, read in (("", "main"), ("side", "side")):
        one = Reader(server, JOB, logs=LogSelection(container=container))
        await one.end()
        assert one.lines == [f"j-t-0/{read} first", f"j-t-0/{read} last"]


@pytest.mark.usefixtures("short_drain")
async def test_a_slow_reader_gets_every_line() -> None:
    """The server's side waits for the reader, and what waits to be read is no log that does not end."""
    server = Server()
    server.pod("j-t-0", "Running", server.make(JOBS, "j", DONE))

    async def stream(path: str, params: Any) -> AsyncIterator[bytes]:
        for number in range(500):
            yield f"{number}\n".encode()

    server.stream = stream  # type: ignore[method-assign,assignment]
    found = []
    async with asyncio.timeout(60):
        async for line in follow_logs(server, JOBS, "default", "j", LogSelection()):  # type: ignore[arg-type]
            found.append(line.text)
            if len(found) in (1, 250):
                await asyncio.sleep(0.1)
    assert found == [str(number) for number in range(500)]


async def test_a_log_that_cannot_be_read_does_not_keep_others_from_being_read() -> None:
    server = Server()
    job = server.make(JOBS, "j", DONE)
    for name in ("j-t-0", "j-t-1"):
        server.pod(name, "Succeeded", job)
    good = server.stream

    async def stream(path: str, params: Any) -> AsyncIterator[bytes]:
        if "j-t-0" in path:
            raise Forbidden("not yours")
        async for chunk in good(path, params):
            yield chunk

    server.stream = stream  # type: ignore[method-assign]
    reader = Reader(server, JOB, logs=ALL)
    await reader.end()
    assert reader.failures == ["j-t-0: not yours"]
    assert reader.lines == ["j-t-1/main first", "j-t-1/main last"]


async def test_catching_up_ends_with_deleted_objects_and_kinds_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "CATCH_UP_SECONDS", 600.0)
    server = Server()
    job = server.make(JOBS, "j", RUNNING)
    reader = Reader(server, JOB)
    await reader.until(lambda: reader.views["j"])
    plain = server.list

    async def list_late(kind: Any, namespace: str | None = None, **options: Any) -> Any:
        """Deletes what it has listed before it answers."""
        if kind is POD_GROUPS:
            raise OSError("connection refused")
        found = await plain(kind, namespace, **options)
        for pod in server.objects(PODS) if kind is PODS else ():
            server.remove(PODS, pod.key)
        await settle()
        return found

    server.list = list_late  # type: ignore[method-assign]
    server.pod("j-t-0", "Succeeded", job)
    server.make(JOBS, "j", DONE)
    await reader.end()
    assert reader.phases() == ["Running", "Completed"]


async def test_a_job_that_nobody_schedules_waits_for_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_FIRST_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(following, "_LOOK_SECONDS", 0.0)
    answers = iter(["", "no cycle has ended for 40 s", "no cycle has ended for 41 s", ""])
    asked: list[str] = []

    async def health(_: Any, name: str) -> SchedulerHealth:
        asked.append(name)
        return SchedulerHealth(next(answers, ""))

    monkeypatch.setattr(following, "scheduler_health", health)
    server = Server()
    server.make(JOBS, "j", {"state": {"phase": "Pending"}}, schedulerName="mine")
    reader = Reader(server, JOB)
    await reader.until(lambda: len(reader.views["j"]) == 3)
    server.make(JOBS, "j", DONE, schedulerName="mine")
    await reader.end()
    # Its seconds are not told again and again.
    assert [view.waiting for view in reader.views["j"][:3]] == ["", "no cycle has ended for 40 s", ""]
    assert set(asked) == {"mine"}
