"""Which writes of a job's life the webhook is asked about: few, and none of a pod."""

from __future__ import annotations

from collections import Counter

from integration_world import plane

from unisono.api.kinds import JOBS, QUEUES
from unisono.kube.kubeconfig import ClusterConfig


async def test_the_webhook_is_asked_about_new_jobs_and_about_nothing_else(config: ClusterConfig) -> None:
    async with plane(config) as it:
        # On a new cluster the controllers make this queue, and write to it, in these moments.
        await it.ledger.until(lambda: (found := it.ledger.queues.get("default")) and found.status.state == "Open")
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
        # Gangs come from jobs that were checked, and are complete; jobs are checked where they are completed.
        assert asked == {("mutate", JOBS.resource, "CREATE"): 2}
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
