"""What the job controller measures, as Volcano's dashboards read it."""

from __future__ import annotations

import pytest
from job_world import World, job, task
from prometheus_client import CollectorRegistry

from support.virtual_clock import settle
from unisono.controllers.probing import NoProber
from unisono.controllers.registry import all_controllers
from unisono.kube.controller import Controller

NAME = "volcano_controller_job_to_pod_creation_latency_milliseconds"


class Measured(World):
    """A world whose controllers count."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = CollectorRegistry()

    def make_controllers(self) -> list[Controller]:
        return all_controllers(self.recorder, prober=NoProber(), registry=self.registry)

    def value(self, suffix: str) -> float | None:
        return self.registry.get_sample_value(f"{NAME}{suffix}")


async def test_every_pod_counts_with_the_age_of_its_job() -> None:
    async with Measured() as it:
        await it.submit(job(task("work", 2)))
        assert it.value("_count") == 0
        await it.advance(3.0)
        await it.admit()
        assert (it.value("_count"), it.value("_sum")) == (2, 6000)
        await it.advance(10.0)
        await it.change("job", tasks=[task("work", 3)], minAvailable=2)
        await settle(60)
        assert (it.value("_count"), it.value("_sum")) == (3, 19_000)


async def test_the_bounds_are_those_of_volcano() -> None:
    async with Measured() as it:
        (metric,) = it.registry.collect()
        bounds = [float(sample.labels["le"]) for sample in metric.samples if sample.name.endswith("_bucket")]
        assert (len(bounds), bounds[0], bounds[-1]) == (31, 50.0, float("inf"))
        assert bounds[-2] == pytest.approx(60_000.0)
        assert bounds[1] / bounds[0] == pytest.approx(bounds[-2] / bounds[-3])
