"""What the job controller measures, as Volcano's dashboards read it."""

from __future__ import annotations

import msgspec
import pytest
from job_world import World, job, task
from prometheus_client import CollectorRegistry

from support.virtual_clock import settle
from unisono.api.groups.flow import JobFlow, JobTemplate
from unisono.api.kind_families import JOB_FLOWS, JOB_TEMPLATES
from unisono.api.kinds import JOBS
from unisono.controllers.metrics import NoProber
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
        (metric,) = (each for each in it.registry.collect() if each.name == NAME)
        bounds = [float(sample.labels["le"]) for sample in metric.samples if sample.name.endswith("_bucket")]
        assert (len(bounds), bounds[0], bounds[-1]) == (31, 50.0, float("inf"))
        assert bounds[-2] == pytest.approx(60_000.0)
        assert bounds[1] / bounds[0] == pytest.approx(bounds[-2] / bounds[-3])


@pytest.mark.parametrize(
    ("ends", "completed", "failed"), [(["Succeeded"], 1, None), (["Failed"], None, 1), ([], None, None)]
)
async def test_jobs_are_counted_by_how_they_end_until_they_are_deleted(
    ends: list[str], completed: int | None, failed: int | None
) -> None:
    labels = {"job_name": "default/job", "queue_name": "default"}
    async with Measured() as it:
        await it.submit(job(task("work", 1)))
        await it.admit()
        for phase in ends:
            for pod in it.pods():
                it.set_pod(pod, phase)
            await it.advance(10.0)
        found = [
            it.registry.get_sample_value(f"volcano_job_{end}_phase_count", labels) for end in ("completed", "failed")
        ]
        assert found == [completed, failed]
        await it.client.delete(JOBS, "job", "default")
        await it.advance(1.0)
        assert it.registry.get_sample_value("volcano_job_completed_phase_count", labels) is None


@pytest.mark.parametrize(("end", "succeeded", "failed"), [("Succeeded", 1, None), ("Failed", None, 1)])
async def test_flows_are_counted_by_namespace(end: str, succeeded: int | None, failed: int | None) -> None:
    async with Measured() as it:
        template = {"metadata": {"name": "step", "namespace": "default"}, "spec": {"tasks": [task("work", 1)]}}
        await it.client.create(JOB_TEMPLATES, msgspec.convert(template, JobTemplate))
        flow = {"metadata": {"name": "flow", "namespace": "default"}, "spec": {"flows": [{"name": "step"}]}}
        await it.client.create(JOB_FLOWS, msgspec.convert(flow, JobFlow))
        await it.advance(1.0)
        await it.admit("flow-step")
        for pod in it.pods():
            it.set_pod(pod, end)
        await it.advance(10.0)
        found = [
            it.registry.get_sample_value(f"volcano_jobflow_{way}_phase_count", {"jobflow_namespace": "default"})
            for way in ("succeed", "failed")
        ]
        assert found == [succeeded, failed]
