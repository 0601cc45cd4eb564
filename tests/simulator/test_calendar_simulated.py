"""Reservations and temporary quotas of a cluster file, on the simulation's clock, which begins at 22:13:20."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.simulator.live_worlds import simulated
from tests.simulator.worlds import job

from unisono.engine.config_file.reader import default_config
from unisono.simulator.clusters import ClusterError, build, build_from_objects
from unisono.simulator.workload.job import Job
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

NODE = {"name": "n", "cpu": 32, "memory": "64Gi", "gpus": 4}
NIGHTS = {"name": "down", "schedule": "15 22 * * *", "duration": "1h", "nodes": ["n"], "purpose": "Maintenance"}


def run(jobs: list[Job], until: float | None = None, **more: Any) -> tuple[dict[str, Any], float]:
    told = World(
        build({"nodes": [NODE], **more}), jobs, default_config(), Settings(run_times="exact", until=until)
    ).run()
    return simulated(told), told.end


def test_pods_that_run_longer_than_they_said_leave_before_the_window() -> None:
    """It was to end in a minute: it is evicted when the window begins at 100 s, and starts again when it is over."""
    jobs = [job("liar", 0, 300, gpus=4, estimate=60.0)]
    cluster = build({"nodes": [NODE], "reservations": [NIGHTS]})
    told = World(cluster, jobs, default_config(), Settings(run_times="estimate", until=8000.0)).run()
    assert [one.reason for one in told.evictions] == ["calendar"]
    assert [begun for begun, _ in simulated(told)["liar"]] == [0.0, 3700.0]


def test_a_quota_holds_for_a_time() -> None:
    half = {"name": "half", "queue": "default", "start": "2023-11-14T22:15:00Z", "duration": "5m"}
    jobs = [job(f"j{n}", 120 + n, 1000, gpus=2) for n in range(2)]
    placed, _ = run(jobs, 2000.0, temporaryQuotas=[{**half, "capability": {"nvidia.com/gpu": 2}}])
    assert placed == {"j0": [(120.0, "n")], "j1": [(400.0, "n")]}


def test_windows_that_come_again_and_again_do_not_keep_a_simulation_alive() -> None:
    """The job runs for a day, so that it never ends before the next window."""
    placed, end = run([job("long", 0, 90_000, gpus=4)], reservations=[NIGHTS])
    assert placed == {"long": []}
    assert end <= 10 * 86_400.0


def test_a_window_weeks_ahead_is_waited_for() -> None:
    far = {"name": "far", "start": "2023-12-14T22:13:20Z", "duration": "1h", "nodes": ["n"], "namespaces": ["*"]}
    placed, _ = run([job("j", 0, 60, gpus=4, annotations={"unisono.io/reservation": "far"})], reservations=[far])
    assert placed == {"j": [(30 * 86_400.0, "n")]}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"reservations": [{**NIGHTS, "name": ""}]}, r"reservations\[0\].name"),
        ({"reservations": [NIGHTS, NIGHTS]}, r"reservations\[1\].name"),
        ({"reservations": [{**NIGHTS, "odd": 1}]}, "odd"),
        ({"reservations": [{**NIGHTS, "duration": "long"}]}, "spec.duration"),
        ({"temporaryQuotas": [{"name": "a", "queue": "q"}]}, "spec.start"),
    ],
)
def test_what_is_wrong_is_named(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ClusterError, match=said):
        build({"nodes": [NODE], **more})


def test_objects_are_taken_as_they_are() -> None:
    text = """
    - {apiVersion: v1, kind: Node, metadata: {name: n}}
    - apiVersion: calendar.unisono.io/v1alpha1
      kind: Reservation
      metadata: {name: r}
      spec: {schedule: "0 0 * * *", duration: 1h, count: 1, purpose: Maintenance}
    - apiVersion: calendar.unisono.io/v1alpha1
      kind: TemporaryQuota
      metadata: {name: t}
      spec: {schedule: "0 0 * * *", duration: 1h, queue: q, weight: 2}
    """
    cluster = build_from_objects((value, "file") for value in yaml.safe_load(text))
    assert [one.metadata.name for one in (*cluster.reservations, *cluster.temporary_quotas)] == ["r", "t"]
    with pytest.raises(ClusterError, match=r"spec\.queue"):
        broken = yaml.safe_load(text.replace("queue: q, ", ""))
        build_from_objects((value, "file") for value in broken)
