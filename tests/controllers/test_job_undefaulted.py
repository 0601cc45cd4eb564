"""Jobs as a server stores them that knows their schema and no defaults."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_world import World, job, task

from unisono.api.defaulting.kubeflow import default_job
from unisono.api.groups.batch import Job
from unisono.api.kinds import POD_GROUPS, PODS, SECRETS, SERVICES
from unisono.controllers.job.view import JobView
from unisono.jobkinds.volcano import with_defaults


def defaulted(value: Job) -> Job:
    copy = msgspec.json.decode(msgspec.json.encode(value), type=Job)
    default_job(copy)
    return copy


tasks = st.fixed_dictionaries(
    {"replicas": st.integers(0, 4), "template": st.just({"spec": {"containers": [], "hostNetwork": True}})},
    optional={
        "name": st.sampled_from(["a", "b"]),
        "minAvailable": st.integers(0, 4),
        "maxRetry": st.integers(0, 4),
        "partitionPolicy": st.fixed_dictionaries(
            {"totalPartitions": st.just(2), "partitionSize": st.just(2)},
            optional={"minPartitions": st.integers(1, 2), "networkTopology": st.just({"highestTierAllowed": 1})},
        ),
    },
)
specs = st.fixed_dictionaries(
    {"tasks": st.lists(tasks, max_size=3)},
    optional={
        "minAvailable": st.integers(0, 4),
        "maxRetry": st.integers(0, 4),
        "queue": st.sampled_from(["", "q"]),
        "schedulerName": st.sampled_from(["", "volcano"]),
        "plugins": st.sampled_from([{}, {"mpi": []}, {"pytorch": []}, {"env": []}]),
        "networkTopology": st.just({"highestTierAllowed": 2}),
    },
)


@given(specs)
def test_the_controller_reads_what_a_webhook_would_have_stored(spec: dict[str, Any]) -> None:
    submitted = msgspec.convert({"metadata": {"name": "j"}, "spec": spec}, Job)
    before = msgspec.json.encode(submitted)
    wanted = defaulted(submitted)
    assert with_defaults(submitted) == wanted.spec
    assert msgspec.json.encode(submitted) == before, "the cached job must stay as it is"
    assert JobView(submitted).min_available == JobView(wanted).min_available
    assert with_defaults(wanted) == wanted.spec


@pytest.mark.parametrize("minimum", [None, 0])
async def test_a_job_without_a_minimum_is_a_gang_of_all_its_pods(minimum: int | None) -> None:
    spec = {} if minimum is None else {"minAvailable": minimum}
    async with World() as it:
        await it.submit(job(task("work", 3), **spec))
        (group,) = it.client.objects(POD_GROUPS)
        assert (group.spec.min_member, group.spec.queue) == (3, "default")
        await it.admit()
        assert {pod.spec.scheduler_name for pod in it.client.objects(PODS)} == {"volcano"}


async def test_a_framework_brings_what_it_needs() -> None:
    async with World() as it:
        roles = [task("master"), task("worker", 2)]
        await it.submit(job(*roles, plugins={"mpi": ["--master=master", "--worker=worker"]}))
        await it.admit()
        assert it.client.objects(SERVICES), "processes find each other by name"
        assert it.client.objects(SECRETS), "mpirun logs in to the workers"
        assert len(it.client.objects(PODS)) == 3


async def test_scale_written_past_admission_makes_and_takes_pods_but_keeps_the_gang() -> None:
    async with World() as it:
        await it.submit(job(task("w", 3, minAvailable=3), minAvailable=2))
        await it.admit()
        for replicas, pods in ((5, 5), (1, 2)):
            await it.change("job", replicas=replicas)
            left = [pod for pod in it.client.objects(PODS) if not pod.metadata.deletion_timestamp]
            assert len(left) == pods
