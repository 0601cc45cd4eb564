"""Which writes of a job's life the webhook is asked about: few, and none of a pod."""

from __future__ import annotations

from collections import Counter

from integration_world import plane

from unisono.api.kinds import JOBS, POD_GROUPS, QUEUES
from unisono.kube.kubeconfig import ClusterConfig


async def test_the_webhook_is_asked_about_new_jobs_and_gangs_and_about_nothing_else(config: ClusterConfig) -> None:
    async with plane(config) as it:
        queue = await it.queue("team", 2)
        before = it.hooks.reviews()
        await it.submit("one", 4)
        await it.submit("two", 3, queue=queue)
        await it.completed("one", "two")
        # Queues are in no namespace: that of an earlier test may be completed meanwhile.
        asked = Counter(
            {key: count for key, count in (it.hooks.reviews() - before).items() if key[1] != QUEUES.resource}
        )
        assert asked, "the server asks no webhook"
        # Gangs may have to go to the queue of their namespace; the jobs that they belong to were checked.
        assert asked == {
            ("mutate", JOBS.resource, "CREATE"): 2,
            ("validate", JOBS.resource, "CREATE"): 2,
            ("mutate", POD_GROUPS.resource, "CREATE"): 2,
        }
        job = await it.client.get(JOBS, "one", it.namespace)
        assert job.status.succeeded == 4
        before = it.hooks.reviews()
        await it.client.patch(JOBS, "one", {"metadata": {"labels": {"a": "b"}}}, namespace=it.namespace)
        await it.client.patch(QUEUES, queue, {"metadata": {"labels": {"a": "b"}}})
        assert it.hooks.reviews() == before, "labels are not checked"
        await it.client.patch(QUEUES, queue, {"spec": {"weight": 3}})
        more = it.hooks.reviews() - before
        assert more == {("mutate", QUEUES.resource, "UPDATE"): 1, ("validate", QUEUES.resource, "UPDATE"): 1}
        it.held()
