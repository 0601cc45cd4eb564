"""History from a real Prometheus: what its samples say is what happened, as far as each user may know it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import prometheus
from support.prometheus import Sample
from unisono.errors import ApiError
from unisono.history.prometheus.api import PrometheusApi
from unisono.history.prometheus.source import POD_GROUPS, PrometheusHistory

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(bool(prometheus.missing()), reason=prometheus.missing() or "can run"),
]

MINUTE, HOUR, DAY = 60, 3600, 86400
# A moment at which a day has just passed its sixth hour.
NOW = int(time.time()) // DAY * DAY - DAY + 6 * HOUR
BEGIN = NOW - 5 * HOUR
GPU = "nvidia.com/gpu"
ALL = [(name, POD_GROUPS) for name in ("team-a", "team-b")]


def during(metric: str, labels: dict[str, str], value: float, first: int, last: int) -> Iterator[Sample]:
    """A gauge with this value from one moment to another, scraped each minute."""
    return (Sample(metric, {**labels, "instance": "s1"}, at, value) for at in range(first, last, MINUTE))


def queue(name: str, cpus: float, gpus: float, first: int, last: int, *, parent: bool = False) -> Iterator[Sample]:
    """A queue that holds so much; what a parent holds is its children's."""
    for what in ("allocated", *(() if parent else ("request",)), "deserved"):
        yield from during(f"volcano_queue_{what}_milli_cpu", {"queue_name": name}, 1000 * cpus, first, last)
        labels = {"queue_name": name, "resource": GPU}
        yield from during(f"volcano_queue_{what}_scalar_resources", labels, 1000 * gpus, first, last)
    if parent:
        yield from during("volcano_queue_request_milli_cpu", {"queue_name": name}, 0, first, last)
        labels = {"queue_name": name, "resource": GPU}
        yield from during("volcano_queue_request_scalar_resources", labels, 0, first, last)


def job(namespace: str, name: str, queue: str, placed: int, waited: int) -> Iterator[Sample]:
    """A job that got its places at a moment, after so many seconds."""
    labels = {"job_namespace": namespace, "job_name": name, "queue": queue}
    for what, value in (("duration", 1000 * waited), ("start_time", placed - waited), ("last_time", placed)):
        yield from during(f"volcano_e2e_job_scheduling_{what}", labels, value, placed, placed + HOUR)


def ended(namespace: str, name: str, queue: str, phase: str, at: int) -> Iterator[Sample]:
    labels = {"job_name": f"{namespace}/{name}", "queue_name": queue}
    return during(f"volcano_job_{phase}_phase_count", labels, 1, at, NOW)


def samples() -> Iterator[Sample]:
    # Two hours of 4 CPUs and 8 cards, then 3 hours of 1 CPU: 11 CPU-hours, 16 GPU-hours.
    yield from queue("research", 4, 8, BEGIN, BEGIN + 2 * HOUR)
    yield from queue("research", 1, 0, BEGIN + 2 * HOUR, NOW)
    yield from queue("serving", 2, 0, BEGIN, NOW)
    yield from queue("root", 6, 8, BEGIN, BEGIN + 2 * HOUR, parent=True)
    yield from queue("root", 3, 0, BEGIN + 2 * HOUR, NOW, parent=True)
    for resource, amount in (("cpu", 16.0), ("nvidia_com_gpu", 8.0), ("pods", 110.0)):
        for node in ("n1", "n2"):
            labels = {"node": node, "resource": resource}
            yield from during("kube_node_status_allocatable", labels, amount / 2, BEGIN, NOW)
    yield from job("team-a", "one", "research", BEGIN + HOUR, 60)
    yield from job("team-b", "two", "research", BEGIN + HOUR, 600)
    yield from job("team-b", "three", "serving", BEGIN + HOUR, 5)
    # Got its places before the time that is asked about.
    yield from job("team-a", "older", "research", BEGIN - 2 * HOUR, 9999)
    yield from ended("team-a", "one", "research", "completed", BEGIN + 2 * HOUR)
    yield from ended("team-b", "two", "research", "failed", BEGIN + 2 * HOUR)
    yield from ended("team-b", "older", "serving", "completed", BEGIN - 2 * HOUR)
    for number, at in enumerate(range(BEGIN, NOW, MINUTE)):
        evictions = 3.0 if number > 60 else 0.0
        yield Sample("volcano_eviction_transactions_total", {"action": "reclaim", "instance": "s1"}, at, evictions)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus.serving(tmp_path_factory.mktemp("prometheus"), samples()) as found:
        yield found


class Moment:
    def time(self) -> float:
        return float(NOW)


async def asked(url: str, what: str = "report", shown: Any = ALL, capacity: bool = True, **query: str) -> Any:
    source = PrometheusHistory(PrometheusApi(url), clock=Moment())  # type: ignore[arg-type]
    times = {"from": str(BEGIN), "to": str(NOW)}
    told = await source.answer(what, {**times, **query}, shown, capacity=capacity, queues=True)
    return json.loads(told or b"null")


def close(hours: float) -> Any:
    """Samples are a minute apart."""
    return pytest.approx(hours, rel=0.02)


async def test_use_by_queue_counts_each_pod_once(url: str) -> None:
    report = await asked(url)
    rows = {row["key"]: row for row in report["rows"]}
    assert set(rows) == {"research", "serving"}
    assert (rows["research"]["cpu_hours"], rows["research"]["gpu_hours"]) == (close(11), close(16))
    assert rows["serving"]["cpu_hours"] == close(10)
    assert report["total"]["cpu_hours"] == close(21)
    assert report["capacity"] == {"cpu": close(80), GPU: close(40)}


async def test_waiting_times_are_those_of_jobs_that_got_their_places_in_the_time(url: str) -> None:
    report = await asked(url)
    waits = {row["key"]: row["waiting"] for row in report["rows"]}
    assert waits["research"] == {"jobs": 2, "p50": 60.0, "p95": 600.0, "max": 600.0}
    assert waits["serving"]["jobs"] == 1
    assert report["total"]["waiting"]["jobs"] == 3


async def test_ends_count_once_and_in_the_time_alone(url: str) -> None:
    report = await asked(url)
    assert {row["key"]: row.get("ended") for row in report["rows"]} == {
        "research": {"Completed": 1, "Failed": 1},
        "serving": None,
    }
    assert report["total"]["evictions"] == 3
    assert report["unknown"] == ["failures", "evictions"]


async def test_use_by_day(url: str) -> None:
    """The time ends in the sixth hour of a day, and begins in its second one."""
    report = await asked(url, by="day")
    [row] = report["rows"]
    assert row["key"] == time.strftime("%Y-%m-%d", time.gmtime(NOW))
    assert (row["cpu_hours"], row["gpu_hours"]) == (close(21), close(16))
    assert row["capacity"]["cpu"] == close(80)


async def test_who_may_not_list_jobs_of_a_namespace_learns_nothing_of_them(url: str) -> None:
    report = await asked(url, shown=ALL[:1], capacity=False)
    rows = {row["key"]: row for row in report["rows"]}
    assert rows["research"]["waiting"]["jobs"] == 1
    assert rows["research"]["waiting"]["max"] == 60.0
    assert rows["research"]["ended"] == {"Completed": 1}
    assert not rows["serving"].get("waiting")
    assert not report["total"].get("evictions")
    assert not report.get("capacity")
    none = await asked(url, shown=[], capacity=False)
    assert not none["total"].get("waiting")
    assert not none["total"].get("ended")


async def test_one_queue_of_many(url: str) -> None:
    report = await asked(url, queue="serving")
    assert [row["key"] for row in report["rows"]] == ["serving"]
    assert not (await asked(url, queue='x"} or vector(1) #'))["rows"]


async def test_shares_over_time(url: str) -> None:
    series = await asked(url, "shares", points="5")
    lines = {(line["queue"], line["resource"]): line for line in series["lines"]}
    assert len(series["times"]) == 5
    used = lines["research", "cpu"]["used"]
    assert [used[0], used[-2]] == [4000, 1000]
    assert lines["research", "cpu"]["deserved"][0] == 4000
    assert lines["", "cpu"]["capacity"][0] == 16_000
    assert not any(lines["root", "cpu"]["used"])
    only = await asked(url, "shares", queue="serving", resource="cpu", capacity=False)
    assert {(line["queue"], line["resource"]) for line in only["lines"]} == {("serving", "cpu")}


async def test_a_chart_knows_where_the_history_begins(url: str) -> None:
    assert not (await asked(url, "shares", points="5"))["since"]
    series = await asked(url, "shares", points="10", **{"from": str(BEGIN - 5 * HOUR)})
    step = series["times"][1] - series["times"][0]
    assert BEGIN <= series["since"] <= BEGIN + step


async def test_the_series_of_another_cluster_do_not_count(url: str) -> None:
    source = PrometheusHistory(PrometheusApi(url), {"cluster": "b"}, clock=Moment())  # type: ignore[arg-type]
    told = await source.answer("report", {"from": str(BEGIN)}, ALL, capacity=True, queues=True)
    assert json.loads(told or b"")["rows"] == []


async def test_places_are_namespaces_with_jobs(url: str) -> None:
    source = PrometheusHistory(PrometheusApi(url), clock=Moment())  # type: ignore[arg-type]
    assert sorted(await source.places()) == ALL


async def test_prometheus_refuses_in_its_own_words(url: str) -> None:
    with pytest.raises(ApiError, match=r"refuses the question: .*parse error"):
        await PrometheusApi(url).vector("sum(", NOW)


async def test_a_dashboard_shows_it_as_far_as_each_viewer_may_see_it(url: str, tmp_path: Path) -> None:
    """Who may list queues sees what they use; waiting times are of jobs in namespaces that the viewer may list."""
    from support.dashboards import running

    source = PrometheusHistory(PrometheusApi(url), clock=Moment())  # type: ignore[arg-type]
    async with running(tmp_path, page=tmp_path, history=source) as setting:
        for namespace in ("team-a", "team-b"):
            await setting.put("/api/v1/namespaces", metadata={"name": namespace})
        for token, jobs, capacity in (
            (await setting.account("team-a", "all", ["get", "list"], cluster=True), 3, True),
            (await setting.viewer("team-a"), 1, False),
        ):
            path = f"{setting.dashboard.url}/api/questions/history/report?from={BEGIN}&to={NOW}"
            async with setting.session.get(path, headers={"X-Unisono-Token": token}) as reply:
                report = json.loads(await reply.text())
            assert report["total"]["waiting"]["jobs"] == jobs
            assert bool(report.get("capacity")) == capacity
