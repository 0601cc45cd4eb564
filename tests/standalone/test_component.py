"""A component beside an API server: it leads or stands by, tells how it is, and hands over when it ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from support.things import THINGS, thing
from unisono.api.kinds import LEASES, NODES, PODS
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.errors import ConfigError
from unisono.kube.client import Client
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig, load
from unisono.kube.leader import LeadershipLost
from unisono.kube.metrics import resource_of
from unisono.kube.reflector import ReflectorStatistics
from unisono.standalone.component import Component, ComponentOptions, parse_listen

PATIENCE = 300.0


class Pretender:
    """A part that reads one list and says how its watch fares."""

    def __init__(self, client: Client, _: CollectorRegistry) -> None:
        self.client, self.ready, self.running = client, asyncio.Event(), asyncio.Event()
        self.silent = 0.0

    async def run(self) -> None:
        self.running.set()
        await self.client.list(PODS)
        await asyncio.Event().wait()

    def unready(self) -> list[str]:
        """It has nothing to say beyond its watches."""
        return []

    def streams(self) -> Mapping[str, ReflectorStatistics]:
        return {"pods": ReflectorStatistics(1, 1, 7, 0, self.silent, "")}


class Process:
    """A component that runs in the background, and its parts in the order in which they began."""

    def __init__(self, config: ClusterConfig, identity: str) -> None:
        self.parts: list[Pretender] = []
        self.began = asyncio.Event()
        options = ComponentOptions(listen="127.0.0.1:0", lease="kube-system/pretender", identity=identity)
        self.component = Component("pretender", config, self._make, options)
        self.task = asyncio.create_task(self.component.run())

    def _make(self, client: Client, registry: CollectorRegistry) -> Pretender:
        self.parts.append(Pretender(client, registry))
        self.began.set()
        return self.parts[-1]

    async def ask(self, path: str) -> tuple[int, str]:
        assert self.component.status is not None
        async with aiohttp.ClientSession() as session, session.get(self.component.status.url + path) as answer:
            return answer.status, await answer.text()

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def config(tmp_path: Path) -> AsyncIterator[ClusterConfig]:
    backend = await Backend.open(tmp_path / "state.db")
    server = ApiServer(backend.service, data_dir=tmp_path)
    await server.start()
    yield load(server.kubeconfig_path)
    await server.stop()
    await backend.close()


@pytest.fixture
async def start(config: ClusterConfig) -> AsyncIterator[Callable[[str], Process]]:
    processes: list[Process] = []

    def begin(identity: str) -> Process:
        processes.append(Process(config, identity))
        return processes[-1]

    yield begin
    for process in processes:
        await process.end()


async def test_the_second_stands_by_ready_and_takes_over_when_the_first_ends(
    config: ClusterConfig, start: Callable[[str], Process]
) -> None:
    async with asyncio.timeout(PATIENCE):
        first = start("a")
        await first.began.wait()
        await first.parts[0].running.wait()
        second = start("b")
        while not (second.component.status and second.component.status.url):
            await asyncio.sleep(0)
        assert await second.ask("/readyz") == (200, "ok")
        assert 'leader_election_master_status{name="pretender"} 0.0' in (await second.ask("/metrics"))[1]
        assert not second.parts
        await first.end()
        await second.began.wait()
        assert 'leader_election_master_status{name="pretender"} 1.0' in (await second.ask("/metrics"))[1]
        client = HttpClient(config)
        lease = await client.get(LEASES, "pretender", "kube-system")
        assert lease.spec.holder_identity == "b"
        await client.close()
        with pytest.raises(LeadershipLost):
            await first.parts[0].client.create(THINGS, thing("late"))


async def test_readiness_says_what_is_missing(start: Callable[[str], Process]) -> None:
    async with asyncio.timeout(PATIENCE):
        process = start("a")
        await process.began.wait()
        assert await process.ask("/readyz") == (503, "pretender has not read everything yet\n")
        process.parts[0].ready.set()
        assert await process.ask("/readyz") == (200, "ok")
        process.parts[0].silent = 3600.0
        assert await process.ask("/readyz") == (503, "the watch on pods has been silent for 3600 s\n")
        assert await process.ask("/healthz") == (200, "ok"), "starting it again would not repair the network"


async def test_metrics_tell_requests_watches_and_what_the_process_costs(start: Callable[[str], Process]) -> None:
    async with asyncio.timeout(PATIENCE):
        process = start("a")
        await process.began.wait()
        while 'rest_client_requests_total{code="200",method="GET",resource="pods"} 1.0' not in (
            text := (await process.ask("/metrics"))[1]
        ):
            await asyncio.sleep(0)
        assert 'rest_client_requests_total{code="201",method="POST",resource="leases"} 1.0' in text
        assert 'unisono_watch_events_total{resource="pods"} 7.0' in text
        assert "process_cpu_seconds_total" in text


async def test_an_address_that_is_taken_is_named(config: ClusterConfig, start: Callable[[str], Process]) -> None:
    first = start("a")
    await first.began.wait()
    assert first.component.status is not None
    port = first.component.status.url.rpartition(":")[2]
    options = ComponentOptions(listen=f"127.0.0.1:{port}")
    with pytest.raises(ConfigError, match=rf"cannot listen on 127.0.0.1:{port} \(Address already in use\):"):
        await Component("other", config, Pretender, options).run()


async def test_an_unreachable_server_is_asked_again_and_probes_answer_meanwhile() -> None:
    options = ComponentOptions(listen="127.0.0.1:0", lease="kube-system/pretender")
    component = Component("pretender", ClusterConfig(server="http://127.0.0.1:9"), Pretender, options)
    task = asyncio.create_task(component.run())
    async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
        assert component.status is not None
        while not component.status.url:
            await asyncio.sleep(0)
        text = ""
        while 'rest_client_requests_total{code="<error>",method="GET",resource="leases"}' not in text:
            async with session.get(component.status.url + "/metrics") as answer:
                text = await answer.text()
        async with session.get(component.status.url + "/livez") as answer:
            assert answer.status == 200
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        (":8080", ("", 8080)),
        ("[::1]:0", ("::1", 0)),
        ("scheduler.local:65535", ("scheduler.local", 65535)),
    ],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert parse_listen(text) == expected


@pytest.mark.parametrize("text", ["8080", "127.0.0.1", "127.0.0.1:http", "::1:80", "h:65536"])
def test_wrong_addresses(text: str) -> None:
    with pytest.raises(ConfigError, match=r"not an address such as 127\.0\.0\.1:8080"):
        parse_listen(text)


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        (PODS.path(None), "pods"),
        (PODS.path("team", "a"), "pods"),
        ("/api/v1/namespaces/team/pods/a/binding", "pods/binding"),
        (NODES.path(None, "n", "status"), "nodes/status"),
        ("/api/v1/namespaces", "namespaces"),
        ("/api/v1/namespaces/team", "namespaces"),
        ("/api/v1/namespaces/team/status", "namespaces/status"),
        ("/apis/batch.volcano.sh/v1alpha1/namespaces/team/jobs/a/status", "jobs/status"),
        ("/apis", "apis"),
        ("/readyz", "readyz"),
    ],
)
def test_resources_of_paths(path: str, resource: str) -> None:
    assert resource_of(path) == resource
