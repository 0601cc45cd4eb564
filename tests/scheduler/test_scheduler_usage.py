"""Node load: what each source is asked over HTTP and how its answers are read, and how failures are lived with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families
from scheduler_world import fill, node
from scheduler_world import world as scheduler_world

from support.memory import MemoryClient
from support.virtual_clock import VirtualClock
from unisono.api.core.cluster import NodeAddress
from unisono.api.kinds import NODES
from unisono.api.node_usage import NodeUsage
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import MetricsSource, SchedulerConfig, metrics_source
from unisono.engine.config_file.reader import load_config
from unisono.errors import ConfigError
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.listening import AppListener
from unisono.scheduler.feed import Feed
from unisono.scheduler.metrics import Metrics
from unisono.scheduler.usage import UsageCollector, UsageError, open_source

NAMES = {"n0": "n0", "n1": "n1", "10.0.0.1": "n1", "fd00::1": "n1"}
NOW = 1_700_000_000.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A server that gives every request to ``handler``; answers its address."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    listener = await AppListener.open(app, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.address[1]}"
    finally:
        await listener.close()


async def ask(address: str, **given: str) -> Mapping[str, NodeUsage]:
    """One collection from a source configured with ``given`` (a dot in a key is written ``__``)."""
    settings = metrics_source({"address": address} | {key.replace("__", "."): text for key, text in given.items()})
    assert settings is not None
    client = HttpClient(ClusterConfig(server=address))
    source = open_source(settings, client)
    try:
        return await source.collect(NAMES, NOW)
    finally:
        await source.close()
        await client.close()


# ---- prometheus


def vector(*series: tuple[dict[str, str], float, str]) -> dict[str, Any]:
    result = [{"metric": labels, "value": [time, value]} for labels, time, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def prometheus(cpu: Any, memory: Any, seen: list[str] | None = None) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        query = request.query["query"]
        if seen is not None:
            seen.append(f"{request.path} {query}")
        if "DCGM" in query:
            return web.json_response(vector())
        return web.json_response(cpu if "node_cpu_seconds_total" in query else memory)

    return answer


async def test_prometheus() -> None:
    """Two questions for all nodes, and two about GPUs; series are matched by name, also with a port."""
    seen: list[str] = []
    cpu = vector(
        ({"instance": "n0"}, NOW - 1, "62.5"), ({"instance": "n1:9100"}, NOW, "10"), ({"instance": "other"}, NOW, "9")
    )
    memory = vector(({"node": "n0", "instance": "10.0.0.1:9100"}, NOW - 2, "40"), ({"instance": "n1"}, NOW + 9, "-0.5"))
    async with serving(prometheus(cpu, memory, seen)) as address:
        found = await ask(f"{address}/", type="prometheus")
    assert found == {"n0": NodeUsage(62.5, 40.0, NOW - 2), "n1": NodeUsage(10.0, 0.0, NOW)}
    assert len(seen) == 4
    assert all(query.startswith("/api/v1/query ") and "[10m:30s]" in query for query in seen)


RECORDED = Path(__file__).parent / "recorded" / "dcgm_exporter.txt"
"""A node with two cards, in the form of the example in the README of DCGM's exporter (3.3)."""


def of_exporter(query: str, **labels: str) -> Any:
    """What Prometheus answers, for the two queries about GPUs, of what the exporter showed at one scrape."""
    sums: dict[str, list[float]] = {}
    names: set[str] = set()
    for family in text_string_to_metric_families(RECORDED.read_text()):
        for sample in family.samples:
            sums.setdefault(family.name, []).append(sample.value)
            names.add(sample.labels["Hostname"])
    used, free = sum(sums["DCGM_FI_DEV_FB_USED"]), sum(sums["DCGM_FI_DEV_FB_FREE"])
    use = sums["DCGM_FI_DEV_GPU_UTIL"]
    value = 100 * used / (used + free) if "FB_USED" in query else sum(use) / len(use)
    (name,) = names
    return vector(({"instance": "10.1.2.3:9400", "Hostname": name} | labels, NOW, str(value)))


@pytest.mark.parametrize(
    ("labels", "gpu"),
    [
        ({}, ("n0", 50.0, 37.5)),
        ({"Hostname": "elsewhere", "node": "n1"}, ("n1", 50.0, 37.5)),
        ({"Hostname": "dcgm-exporter-x7k2p", "instance": "10.0.0.1:9400"}, ("n1", 50.0, 37.5)),
        ({"Hostname": "elsewhere"}, ("", None, None)),
    ],
    ids=["by the exporter's label", "by a label of the scrape", "by the node's address", "of no node of ours"],
)
async def test_gpus_by_dcgm_count_where_they_are_measured(
    labels: dict[str, str], gpu: tuple[str, float | None, float | None]
) -> None:
    async def answer(request: web.Request) -> web.Response:
        query = request.query["query"]
        cpu = vector(({"instance": "n0"}, NOW, "5"), ({"instance": "n1"}, NOW, "5"))
        return web.json_response(of_exporter(query, **labels) if "DCGM" in query else cpu)

    async with serving(answer) as address:
        found = await ask(address, type="prometheus")
    wanted = {name: NodeUsage(5.0, 5.0, NOW) for name in ("n0", "n1")}
    if gpu[0]:
        wanted[gpu[0]] = NodeUsage(5.0, 5.0, NOW, gpu[1], gpu[2])
    assert found == wanted


@pytest.mark.parametrize(
    ("cpu", "message"),
    [
        ({"status": "error", "error": "query timed out"}, "refuses a query: query timed out"),
        ({"status": "success", "data": {"result": "x"}}, "answers no vector"),
        (vector(), "no series of the nodes, at all; is node_exporter scraped"),
        (vector(({"instance": "10.0.0.9:9100"}, NOW, "5")), r"such as instance '10.0.0.9:9100' \(it must be a node's"),
        (vector(({"instance": "n0"}, NOW, "NaN")), "no series of the nodes"),
        ([], "refuses a query: no reason given"),
    ],
)
async def test_what_prometheus_may_answer_wrongly(cpu: Any, message: str) -> None:
    async with serving(prometheus(cpu, vector(({"instance": "n0"}, NOW, "5")))) as address:
        with pytest.raises(UsageError, match=message):
            await ask(address, type="prometheus")


async def test_a_node_without_both_values_has_none() -> None:
    cpu = vector(({"instance": "n0"}, NOW, "5"), ({"instance": "n1"}, NOW, "5"))
    async with serving(prometheus(cpu, vector(({"instance": "n1"}, NOW, "7")))) as address:
        assert await ask(address, type="prometheus") == {"n1": NodeUsage(5.0, 7.0, NOW)}


@pytest.mark.parametrize(
    ("status", "text", "message"), [(500, "oops", "answers status 500: oops"), (200, "<html>", "is the address right")]
)
async def test_a_server_that_is_something_else(status: int, text: str, message: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, text=text)

    async with serving(answer) as address:
        with pytest.raises(UsageError, match=message):
            await ask(address, type="prometheus")
    with pytest.raises(UsageError, match="cannot be reached"):
        await ask(address, type="prometheus")


# ---- the others


async def test_the_adaptor_is_asked_through_the_api_server() -> None:
    paths: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.path)
        value = {"node_cpu_usage_avg": "625m", "node_memory_usage_avg": "0.4"}[request.path.rpartition("/")[2]]
        items = [
            {
                "describedObject": {"kind": "Node", "name": name, "apiVersion": "/v1"},
                "metricName": "m",
                "timestamp": "2023-11-14T22:13:10Z",
                "value": value,
            }
            for name in ("n0", "gone")
        ]
        return web.json_response({"kind": "MetricValueList", "metadata": {}, "items": items})

    async with serving(answer) as address:
        assert await ask(address, type="prometheus_adaptor") == {"n0": NodeUsage(62.5, 40.0, NOW - 10)}
    assert paths == [f"/apis/custom.metrics.k8s.io/v1beta1/nodes/*/node_{what}_usage_avg" for what in ("cpu", "memory")]


async def test_a_cluster_without_an_adaptor() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound", "message": "no"}, status=404)

    async with serving(answer) as address:
        with pytest.raises(UsageError, match="no metric node_cpu_usage_avg of nodes; install prometheus-adapter"):
            await ask(address, type="prometheus_adaptor")


async def test_elasticsearch() -> None:
    asked: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.method, request.path, request.headers.get("Authorization"), await request.json()))
        buckets = [
            {
                "key": name,
                "cpu": {"value": 0.625},
                "memory": {"value": memory},
                "latest": {"value": (NOW - 20) * 1000},
            }
            for name, memory in (("n0", 0.4), ("n1", None), ("other", 0.1))
        ]
        return web.json_response({"aggregations": {"nodes": {"buckets": buckets}}})

    given = {"elasticsearch__username": "u", "elasticsearch__password": "p", "elasticsearch__index": "beats-*"}
    async with serving(answer) as address:
        found = await ask(address, type="elasticsearch", elasticsearch__hostnameFieldName="agent.name", **given)
    assert found == {"n0": NodeUsage(62.5, 40.0, NOW - 20)}
    method, path, authorization, body = asked[0]
    assert (method, path, authorization) == ("POST", "/beats-*/_search", "Basic dTpw")
    assert body["aggs"]["nodes"]["terms"]["field"] == "agent.name"
    assert body["query"]["bool"]["filter"][0]["range"]["@timestamp"]["gte"] == "now-10m"


async def test_elasticsearch_that_answers_something_else() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"error": "index_not_found"})

    async with serving(answer) as address:
        with pytest.raises(UsageError, match="answers no aggregation"):
            await ask(address, type="elasticsearch")


# ---- the section


def test_the_section_is_read_with_volcanos_defaults() -> None:
    assert metrics_source({}) is None
    assert metrics_source({"type": "prometheus", "address": "http://p:9090/"}) == MetricsSource(
        "prometheus", "http://p:9090", 30.0, False, "metricbeat-*", "host.hostname", "", ""
    )
    source = metrics_source({"type": "elasticsearch", "address": "http://e", "elasticsearch.password": "secret"})
    assert "secret" not in repr(source)
    with pytest.raises(ConfigError, match="type of metrics"):
        metrics_source({"type": "influx"})


# ---- again and again


class Scripted:
    """A source that gives or raises what a test says next, and notes when it is asked."""

    def __init__(self, clock: VirtualClock, *answers: Any) -> None:
        self.clock, self.answers = clock, list(answers)
        self.asked: list[float] = []
        self.closed = False

    async def collect(self, names: Mapping[str, str], now: float) -> Mapping[str, NodeUsage]:
        self.asked.append(self.clock.monotonic())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {name: NodeUsage(*pair, now) for name, pair in answer.items()}

    async def close(self) -> None:
        self.closed = True


class Setting:
    """A collector on a virtual clock."""

    def __init__(self, *answers: Any, interval: str = "30s") -> None:
        self.clock = VirtualClock()
        self.source = Scripted(self.clock, *answers)
        self.opened: list[MetricsSource] = []
        self.section = {"type": "prometheus", "address": "http://p", "interval": interval}
        self.feed = Feed(ClusterState(), lambda: None)
        for name in ("n0", "n1"):
            self.feed.take(NODES, "ADDED", node(name))
        self.metrics = Metrics()
        self.collector = UsageCollector(
            MemoryClient(), self.feed, lambda: self.section, self.metrics, self.clock, self.open
        )

    def open(self, settings: MetricsSource, client: Any) -> Scripted:
        self.opened.append(settings)
        return self.source

    def counted(self, outcome: str) -> float:
        name = "unisono_scheduler_usage_collections_total"
        return self.metrics.registry.get_sample_value(name, {"outcome": outcome}) or 0.0

    def loads(self) -> dict[str, float]:
        return {name: usage.cpu for name, usage in self.feed.state.node_usage.items()}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.collector.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_it_asks_once_per_interval() -> None:
    setting = Setting({"n0": (10.0, 1.0)}, {"n0": (20.0, 1.0), "n1": (30.0, 1.0)})
    async with setting.running():
        await setting.clock.advance(1.0)
        assert setting.loads() == {"n0": 10.0}
        await setting.clock.advance(60.0)
        assert setting.loads() == {"n0": 20.0, "n1": 30.0}
    assert setting.source.asked == [0.0, 30.0, 60.0]
    assert setting.counted("done") == 3
    assert setting.source.closed


@pytest.mark.parametrize(
    "error", [UsageError("no"), OSError("gone"), TimeoutError(), RuntimeError("a mistake of ours")]
)
async def test_a_failure_is_not_an_idle_node(error: Exception) -> None:
    """What was measured stays until it is five minutes old, and the source is asked less and less often."""
    setting = Setting({"n0": (90.0, 1.0)}, error)
    async with setting.running():
        await setting.clock.advance(200.0)
        assert setting.loads() == {"n0": 90.0}
        await setting.clock.advance(600.0)
        assert setting.loads() == {}
        pauses = [later - one for one, later in zip(setting.source.asked, setting.source.asked[1:], strict=False)]
        assert pauses[:5] == [30.0, 30.0, 60.0, 120.0, 240.0]
        assert len(setting.source.asked) <= 7
        assert setting.counted("failed") >= 3
        setting.source.answers = [{"n0": (15.0, 1.0)}]
        await setting.clock.advance(301.0)
        assert setting.loads() == {"n0": 15.0}


async def test_a_node_that_the_source_forgets_is_measured_for_a_while() -> None:
    setting = Setting({"n0": (90.0, 1.0), "n1": (5.0, 1.0), "unknown": (1.0, 1.0)}, {"n1": (6.0, 1.0)})
    async with setting.running():
        await setting.clock.advance(100.0)
        assert setting.loads() == {"n0": 90.0, "n1": 6.0}
        await setting.clock.advance(300.0)
        assert setting.loads() == {"n1": 6.0}


async def test_another_configuration_is_followed() -> None:
    setting = Setting({"n0": (10.0, 1.0)}, interval="10m")
    async with setting.running():
        await setting.clock.advance(20.0)
        setting.section = setting.section | {"interval": "10s"}
        await setting.clock.advance(25.0)
        assert [settings.interval for settings in setting.opened] == [600.0, 10.0]
        assert len(setting.source.asked) == 4
        setting.section = {}
        await setting.clock.advance(10.0)
        assert setting.source.closed
        assert setting.loads() == {}
        asked = len(setting.source.asked)
        await setting.clock.advance(100.0)
        assert len(setting.source.asked) == asked


async def test_the_scheduler_keeps_off_nodes_that_are_busy_in_fact() -> None:
    """The whole way: a Prometheus server, the collector, the plug-in, a bind on the other node."""
    from unisono.engine import run

    clock = VirtualClock()
    load = {"n0": ("95", "10"), "n1": ("5", "10")}
    answers = [
        vector(*(({"instance": name}, clock.time(), pair[at]) for name, pair in load.items())) for at in range(2)
    ]
    async with serving(prometheus(*answers)) as address:
        config = load_config(f"""
actions: "enqueue, allocate"
tiers:
- plugins: [{{name: gang}}, {{name: predicates}}, {{name: usage}}]
metrics: {{type: prometheus, address: "{address}"}}
""")
        client = MemoryClient(clock)
        fill(client, nodes=2)

        async with scheduler_world(client, run, config=_Source(config)) as world:
            while not world.scheduler.feed.state.node_usage:
                await world.run(0.01)
                await asyncio.sleep(0.01)
            fill(client, nodes=2, gangs={"j": 1})
            await world.run(3.0)
            assert world.nodes_of("j") == {"j-0": "n1"}


class _Source:
    def __init__(self, config: SchedulerConfig) -> None:
        self.config, self.error, self.text = config, "", ""
        self.name, self.reference = "a test", None

    def poll(self) -> SchedulerConfig:
        return self.config


async def test_a_series_is_told_by_the_address_of_its_node() -> None:
    busy = vector(({"instance": "10.0.0.1:9100"}, NOW, "40"))
    half = vector(({"instance": "[fd00::1]:9100"}, NOW, "50"))
    async with serving(prometheus(busy, half)) as address:
        found = await ask(address, type="prometheus")
    assert {name: (usage.cpu, usage.memory) for name, usage in found.items()} == {"n1": (40.0, 50.0)}


def test_an_address_of_two_nodes_is_of_none() -> None:
    feed = Feed(ClusterState(), lambda: None)
    for name, addresses in (("n0", ("10.0.0.1", "n0")), ("n1", ("10.0.0.1", "10.0.0.2")), ("n2", ("n0",))):
        made = node(name)
        made.status.addresses = [NodeAddress(type="InternalIP", address=each) for each in addresses]
        feed.take(NODES, "ADDED", made)
    assert feed.nodes_known_as() == {"n0": "n0", "n1": "n1", "n2": "n2", "10.0.0.2": "n1"}


@pytest.mark.parametrize(("answer", "after"), [({"n0": (10.0, 1.0)}, 0.0), (UsageError("no"), 0.0)])
async def test_the_first_cycle_waits_for_the_first_answer(answer: Any, after: float) -> None:
    setting = Setting(answer)
    waiting = asyncio.create_task(setting.collector.first())
    await setting.clock.advance(1.0)
    assert not waiting.done()
    async with setting.running():
        await setting.clock.advance(after + 0.1)
        assert waiting.done()


async def test_the_first_cycle_does_not_wait_for_ever_nor_without_a_source() -> None:
    setting = Setting({"n0": (10.0, 1.0)})
    waiting = asyncio.create_task(setting.collector.first())
    await setting.clock.advance(9.0)
    assert not waiting.done()
    await setting.clock.advance(2.0)
    assert waiting.done()
    without = Setting({})
    without.section = {}
    async with without.running():
        await asyncio.wait_for(without.collector.first(), 1.0)
