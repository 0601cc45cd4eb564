"""Scheduler, controllers and nodes together on an API server: gangs, queues, preemption, reclaim, the life of a job."""

from __future__ import annotations

import msgspec
from integration_foreign import foreign_pod
from integration_world import PATIENCE, job, plane

from unisono.api.groups.batch import DependsOn
from unisono.api.keys import GROUP_NAME
from unisono.api.kinds import JOBS, PODS
from unisono.kube.kubeconfig import ClusterConfig


async def test_a_job_goes_from_its_submission_to_its_end(config: ClusterConfig) -> None:
    async with plane(config) as it:
        await it.submit("one", 4)
        await it.completed("one")
        found = it.ledger.jobs.get(f"{it.namespace}/one")
        assert found is not None and found.status.succeeded == 4
        pods = it.ledger.pods.items()
        assert sorted(pod.metadata.name for pod in pods) == [f"one-work-{number}" for number in range(4)]
        # The PodGroup itself goes with the end of its job.
        groups = {(pod.metadata.annotations or {}).get(GROUP_NAME) for pod in pods}
        assert groups == {f"one-{found.metadata.uid}"}
        it.held()


async def test_a_gang_starts_whose_tasks_wait_for_others_of_it(config: ClusterConfig) -> None:
    """The workers' pods are made when the master runs; the cluster holds exactly the gang."""
    async with plane(config, nodes=1, cpus=3) as it:
        staged = job("one", it.namespace, 2, minimum=3, seconds=0.5)
        (worker,) = staged.spec.tasks or ()
        master = msgspec.structs.replace(worker, name="master", replicas=1)
        worker.depends_on = DependsOn(name=["master"])
        staged.spec.tasks = [master, worker]
        await it.client.create(JOBS, staged)
        await it.completed("one")
        assert len(it.ledger.pods) == 3
        it.held()


async def test_of_two_gangs_that_do_not_fit_together_one_waits_as_a_whole(config: ClusterConfig) -> None:
    async with plane(config, nodes=2, cpus=4) as it:
        for name in ("one", "two"):
            await it.submit(name, 6, seconds=1.0)
        overlaps: list[tuple[int, int]] = []

        def both_over() -> bool:
            overlaps.append((len(it.ledger.bound("one-")), len(it.ledger.bound("two-"))))
            return {it.ledger.phase("one"), it.ledger.phase("two")} == {"Completed"}

        await it.ledger.until(both_over)
        assert max(one + two for one, two in overlaps) <= 6, "half a gang took room"
        assert it.ledger.longest_partial() < PATIENCE
        it.held()


async def test_a_gang_that_never_fits_starts_nothing(config: ClusterConfig) -> None:
    async with plane(config, nodes=2, cpus=4) as it:
        await it.submit("huge", 9)
        for name in ("small-1", "small-2"):
            await it.submit(name, 4)
        await it.completed("small-1", "small-2")
        assert not it.ledger.bound("huge")
        it.held()


async def test_queues_share_by_their_weights(config: ClusterConfig) -> None:
    async with plane(config, nodes=2, cpus=8) as it:
        await it.ledger.until(lambda: len(it.ledger.nodes) == 2)
        # Nobody gets room before all pods are there: what one takes beyond its share while it is alone stays with it,
        # since no running pod is taken for the sake of a job that has its minimum.
        held = [foreign_pod(it.namespace, "8", f"foreign-{number}") for number in range(2)]
        for number, pod in enumerate(held):
            await it.client.create(PODS, pod)
            await it.client.bind(it.namespace, pod.metadata.name, f"{it.namespace}-{number}")
        await it.ledger.until(lambda: len(it.ledger.bound("foreign")) == 2)
        for name, weight in (("a", 1), ("b", 3)):
            queue = await it.queue(name, weight)
            await it.submit(f"{name}-job", 16, minimum=1, seconds=None, queue=queue)
        await it.ledger.until(lambda: len(it.ledger.pods) == 2 + 32)
        for pod in held:
            await it.client.delete(PODS, pod.metadata.name, it.namespace, grace_seconds=0)
        await it.ledger.until(lambda: len(it.ledger.bound("a-")) + len(it.ledger.bound("b-")) == 16)
        assert (len(it.ledger.bound("a-")), len(it.ledger.bound("b-"))) == (4, 12)
        it.held()


async def test_a_job_of_high_priority_takes_the_place_of_one_of_low(config: ClusterConfig) -> None:
    async with plane(config) as it:
        low, high = await it.priority("low", 10), await it.priority("high", 1000)
        await it.submit("low", 16, minimum=1, seconds=None, priority=low)
        await it.ledger.until(lambda: len(it.ledger.bound("low-")) == 16)
        # No more than the overcommit plug-in admits to a full cluster.
        await it.submit("high", 3, seconds=1.0, priority=high)
        await it.completed("high")
        await it.ledger.until(lambda: len(it.ledger.bound("low-")) == 16)
        it.held()


async def test_a_queue_gets_its_share_back(config: ClusterConfig) -> None:
    async with plane(config, nodes=2, cpus=4) as it:
        a, b = await it.queue("a", 1), await it.queue("b", 1)
        await it.submit("a-job", 8, minimum=1, seconds=None, queue=a)
        await it.ledger.until(lambda: len(it.ledger.bound("a-")) == 8)
        for number in range(4):
            await it.submit(f"b-job-{number}", 1, seconds=None, queue=b)
        await it.ledger.until(lambda: len(it.ledger.bound("b-")) == 4)
        assert len(it.ledger.bound("a-")) <= 4
        it.held()


async def test_pods_of_other_schedulers_take_their_room(config: ClusterConfig) -> None:
    async with plane(config, nodes=1, cpus=4) as it:
        await it.ledger.until(lambda: len(it.ledger.nodes) == 1)
        foreign = foreign_pod(it.namespace, cpu="2")
        await it.client.create(PODS, foreign)
        await it.client.bind(it.namespace, "foreign", f"{it.namespace}")
        await it.ledger.until(lambda: len(it.ledger.bound("foreign")) == 1)
        await it.submit("ours", 4, minimum=1, seconds=None)
        await it.ledger.until(lambda: len(it.ledger.bound("ours-")) == 2)
        await it.client.delete(PODS, "foreign", it.namespace, grace_seconds=0)
        await it.ledger.until(lambda: len(it.ledger.bound("ours-")) == 4)
        it.held()
