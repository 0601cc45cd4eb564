"""What dashboards made for Volcano find on ``/metrics``."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from scheduler_world import Fixed, fill, group, node, pod, queue, world

from support.build import cluster, config, gang, nodes, schedule
from support.memory import MemoryClient
from unisono.api.base import ObjectMeta
from unisono.api.core import PriorityClass
from unisono.api.kinds import NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES
from unisono.engine import run
from unisono.scheduler.volcano_metrics import MOST_JOBS, Figures, JobTimes

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "monitoring.md").read_text(encoding="utf-8")
SHARED = config(
    ("priority", "gang"),
    ("drf", "predicates", "proportion", "nodeorder"),
    actions="enqueue, allocate, preempt, backfill",
)
CAPPED = config(("priority", "gang"), ("predicates", "capacity", "nodeorder"))

_AMOUNTS = ("allocated", "request", "deserved", "capacity", "real_capacity", "inqueue")
_UNITS = ("milli_cpu", "memory_bytes", "scalar_resources")
_PHASES = ("pending", "inqueue", "running", "unknown", "completed")
QUERIED = [
    *(f"volcano_queue_{what}_{unit}" for what in _AMOUNTS for unit in _UNITS),
    *(f"volcano_queue_pod_group_{phase}_count" for phase in _PHASES),
    "volcano_e2e_scheduling_latency_milliseconds_bucket",
    "volcano_open_session_duration_milliseconds_bucket",
    "volcano_action_scheduling_latency_milliseconds_bucket",
    "volcano_plugin_scheduling_latency_milliseconds_bucket",
    "volcano_e2e_job_scheduling_latency_milliseconds_bucket",
    "volcano_task_scheduling_latency_milliseconds_bucket",
    "volcano_scheduling_stage_duration_milliseconds_bucket",
    "volcano_schedule_attempts_total",
    "volcano_e2e_job_scheduling_duration",
    "volcano_e2e_job_scheduling_start_time",
    "volcano_e2e_job_scheduling_last_time",
    "volcano_pod_preemption_victims",
    "volcano_total_preemption_attempts",
    "volcano_eviction_transactions_total",
    "volcano_unschedule_task_count",
    "volcano_unschedule_job_count",
    "volcano_job_share",
    "volcano_job_retry_counts",
    "volcano_queue_share",
    "volcano_queue_weight",
    "volcano_queue_overused",
]
"""Names that Volcano's scheduler and queue controller have, as dashboards and alerts write them."""


def fixed(settings: Any) -> Fixed:
    source = Fixed()
    source.config = settings
    return source


def busy() -> MemoryClient:
    """A queue with a capability, a gang that runs, one that waits, and one that takes what a lesser one can spare."""
    client = MemoryClient()
    client.put(NODES, node("n0", "4"))
    limited = queue("team-a")
    limited.spec.weight = 3
    limited.spec.capability = {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "2"}
    client.put(QUEUES, limited)
    client.put(QUEUES, queue())
    client.put(PRIORITY_CLASSES, PriorityClass(metadata=ObjectMeta(name="urgent"), value=100))
    add(client, "runs", 4, min_member=2)
    return client


def add(client: MemoryClient, name: str, members: int, **spec: Any) -> None:
    made = group(name, members)
    made.spec.queue = "team-a"
    for key, value in spec.items():
        setattr(made.spec, key, value)
    client.put(POD_GROUPS, made)
    for index in range(members):
        client.put(PODS, pod(f"{name}-{index}", name))


class Scrape(dict[tuple[str, tuple[tuple[str, str], ...]], float]):
    """Samples of one scrape, parsed as a Prometheus server does."""

    def __init__(self, it: Any) -> None:
        text = generate_latest(it.scheduler.metrics.registry).decode()
        super().__init__(
            ((sample.name, tuple(sorted(sample.labels.items()))), sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        )

    def value(self, name: str, **labels: str) -> float | None:
        return self.get((name, tuple(sorted(labels.items()))))

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self}


async def scraped(settings: Any, client: MemoryClient) -> Scrape:
    timed = partial(run, monotonic=client.clock.monotonic)
    async with world(client, timed, config=fixed(settings)) as it:
        await it.run(3)
        add(client, "late", 2, min_resources={"cpu": "2"})
        add(client, "urgent", 2, priority_class_name="urgent")
        await it.run(5)
        return Scrape(it)


async def test_every_name_that_dashboards_ask_for_is_there() -> None:
    found = (await scraped(SHARED, busy())).names | (await scraped(CAPPED, busy())).names
    assert set(QUERIED) - found == set()


@pytest.mark.parametrize("name", sorted({name.removesuffix("_bucket") for name in QUERIED}))
def test_every_one_is_described(name: str) -> None:
    assert re.search(rf"`{name}[`{{]", PAGE)


async def test_amounts_and_shares_of_a_queue() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 2})
    async with world(client, run, config=fixed(SHARED)) as it:
        await it.run(3)
        fill(client, nodes=0, gangs={"b": 4})
        await it.run(3)
        scrape = Scrape(it)
    default = {"queue_name": "default"}
    assert scrape.value("volcano_queue_allocated_milli_cpu", **default) == 2000
    assert scrape.value("volcano_queue_request_milli_cpu", **default) == 6000
    assert scrape.value("volcano_queue_deserved_milli_cpu", **default) == 4000
    assert scrape.value("volcano_queue_real_capacity_memory_bytes", **default) == 16 * 2**30
    assert scrape.value("volcano_queue_share", **default) == 0.5
    assert scrape.value("volcano_queue_overused", **default) == 0
    assert scrape.value("volcano_queue_weight", **default) == 1
    assert scrape.value("volcano_queue_capacity_milli_cpu", **default) is None
    assert scrape.value("volcano_job_share", job_ns="team", job_id="a") == 0.5
    assert scrape.value("volcano_unschedule_task_count", job_id="b") is not None
    assert scrape.value("volcano_job_retry_counts", job_id="b") is not None


async def test_capability_is_the_capacity_of_a_queue() -> None:
    scrape = await scraped(CAPPED, busy())
    assert scrape.value("volcano_queue_capacity_milli_cpu", queue_name="team-a") == 8000
    gpus = {"queue_name": "team-a", "resource": "nvidia.com/gpu"}
    assert scrape.value("volcano_queue_capacity_scalar_resources", **gpus) == 2000
    assert scrape.value("volcano_queue_weight", queue_name="team-a") == 3


async def test_pod_groups_are_counted_by_phase_and_jobs_have_times() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 2, "b": 4})
    await client.clock.advance(20.0)
    async with world(client, run, config=fixed(SHARED)) as it:
        await it.run(3)
        scrape = Scrape(it)
        label = {"job_name": "a", "queue": "default", "job_namespace": "team"}
        assert scrape.value("volcano_e2e_job_scheduling_start_time", **label) == 1_700_000_000
        duration = scrape.value("volcano_e2e_job_scheduling_duration", **label)
        assert duration is not None and 20_000 <= duration < 23_000
        assert scrape.value("volcano_e2e_job_scheduling_latency_milliseconds_count") == 1
        counted = {
            phase: scrape.value(f"volcano_queue_pod_group_{phase}_count", queue_name="default")
            for phase in ("pending", "inqueue", "running")
        }
        assert counted == {"pending": 0, "inqueue": 1, "running": 1}
        client.remove(POD_GROUPS, "team/a")
        await it.run(2)
        assert Scrape(it).value("volcano_e2e_job_scheduling_start_time", **label) is None


async def test_a_queue_that_is_gone_has_no_series() -> None:
    client = MemoryClient()
    fill(client, nodes=1)
    client.put(QUEUES, queue("gone"))
    async with world(client, run, config=fixed(SHARED)) as it:
        await it.run(2)
        assert Scrape(it).value("volcano_queue_weight", queue_name="gone") == 1
        client.remove(QUEUES, "gone")
        await it.run(2)
        assert Scrape(it).value("volcano_queue_weight", queue_name="gone") is None


def test_series_of_jobs_are_bounded() -> None:
    figures = Figures()
    for number in range(MOST_JOBS + 5):
        figures.placed(f"ns/j{number}", JobTimes("default", 0.0, float(number)))
    assert len(figures.times) == MOST_JOBS
    assert "ns/j0" not in figures.times and f"ns/j{MOST_JOBS + 4}" in figures.times


def test_configurations_without_shares_tell_what_is_held() -> None:
    decisions = schedule(cluster(nodes(1), gang("j", 2)), config(("gang",), ("predicates",)))
    (figures,) = [one for one in decisions.figures if one.name == "default"]
    assert figures.shares is None and figures.allocated[0] == 2000
    assert not decisions.sharable
