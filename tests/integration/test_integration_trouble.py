"""An API server that makes trouble, and two who want to lead: nothing is lost. Deaths are in ``tests/world``."""

from __future__ import annotations

from collections.abc import Callable

from integration_proxy import Trouble, proxied
from integration_world import PATIENCE, Part, Plane, plane, run_scheduler

from support.virtual_clock import VirtualClock
from unisono.api.kinds import LEASES, PODS
from unisono.kube.client import Client
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.leader import LeaderElector

GANGS = {"one": 4, "two": 6, "three": 3, "four": 8, "five": 1}
# How long a gang was partly bound includes the time that a removal takes after the patience is over.
SLACK = 10.0


async def submit_all(it: Plane) -> None:
    for name, pods in GANGS.items():
        await it.submit(name, pods)


def nothing_lost(it: Plane) -> None:
    """Every job has completed with all its pods, each was bound once, and no gang stood half bound for long."""
    it.held()
    for name, pods in GANGS.items():
        found = it.ledger.jobs.get(f"{it.namespace}/{name}")
        assert found is not None and found.status.succeeded == pods
    assert it.ledger.longest_partial() < PATIENCE + SLACK


async def test_an_api_server_that_makes_trouble(config: ClusterConfig) -> None:
    """Over HTTP; each kind of trouble alone, and deaths, are in ``tests/world``."""
    trouble = Trouble(busy=0.05, broken=0.05, conflict=0.05, lost=0.05, cut=0.05, repeated=0.1, delayed=0.1)
    async with proxied(config, trouble, seed=7) as (through, proxy):
        async with plane(config, through, nodes=3, cpus=4) as it:
            await submit_all(it)
            await it.completed(*GANGS)
            nothing_lost(it)
            wanted = {name for name in Trouble.__dataclass_fields__ if getattr(trouble, name)}
            assert {name for name, count in proxy.did.items() if count} == wanted, "the test has to meet its trouble"


class Candidate:
    """A scheduler that works while it leads; a lost lease is its end."""

    def __init__(self, it: Plane, identity: str, clock: VirtualClock) -> None:
        self._namespace, self._identity, self._clock = it.namespace, identity, clock
        self.leads = 0
        self.part: Part

    @classmethod
    async def at(cls, it: Plane, config: ClusterConfig, identity: str, clock: VirtualClock) -> Candidate:
        made = cls(it, identity, clock)
        made.part = await it.part("scheduler", config, made._work)
        return made

    async def _work(self, client: Client) -> None:
        elector = LeaderElector(
            client,
            "unisono-scheduler",
            self._namespace,
            self._identity,
            clock=self._clock,
            lease_seconds=8.0,
            renew_deadline=6.0,
            retry_seconds=0.3,
        )
        await elector.run(self._lead)

    async def _lead(self, client: Client) -> None:
        self.leads += 1
        await run_scheduler(client, self._namespace)


async def elections(it: Plane, clock: VirtualClock, until: Callable[[], bool]) -> None:
    """Let the time of elections pass, slower than requests are answered: a busy machine must cost nobody the lead."""
    while not until():
        await clock.advance(0.1)
        await it.client.list(LEASES, it.namespace)


async def test_two_want_to_lead_and_one_dies(config: ClusterConfig) -> None:
    async with plane(config, nodes=3, cpus=4) as it:
        await it.parts["scheduler"].kill()
        clock = VirtualClock()
        candidates = [await Candidate.at(it, config, name, clock) for name in ("a", "b")]
        try:
            for candidate in candidates:
                candidate.part.start()
            await submit_all(it)
            await it.ledger.until(lambda: bool(it.ledger.bound_to))
            leader = next(candidate for candidate in candidates if candidate.leads)
            other = next(candidate for candidate in candidates if candidate is not leader)
            assert not other.leads
            await leader.part.kill()
            await it.submit("late", 2)
            await elections(it, clock, lambda: bool(other.leads))
            await it.completed(*GANGS, "late")
            assert other.leads == 1
            nothing_lost(it)
        finally:
            for candidate in candidates:
                await candidate.part.kill()


async def test_two_schedulers_without_election_bind_no_pod_twice(config: ClusterConfig) -> None:
    """A mistake of the operator: room may be given away twice for a moment, but a pod has one node."""
    async with plane(config, nodes=6, cpus=16) as it:
        second = await it.part("scheduler", config, it.parts["scheduler"].work)
        second.start()
        try:
            await submit_all(it)
            await it.completed(*GANGS)
        finally:
            await second.kill()
        nothing_lost(it)


async def test_a_leader_that_loses_the_api_server_writes_no_more(config: ClusterConfig) -> None:
    """The other takes over while the first believes to lead; when it comes back it finds nothing to spoil."""
    async with proxied(config, Trouble(), seed=1) as (through, proxy), plane(config, nodes=3, cpus=4) as it:
        await it.parts["scheduler"].kill()
        clock = VirtualClock()
        first = await Candidate.at(it, through, "first", clock)
        second = await Candidate.at(it, config, "second", clock)
        try:
            first.part.start()
            await it.submit("warm", 2)
            await it.completed("warm")
            proxy.trouble = Trouble(broken=1.0, cut=1.0)
            second.part.start()
            await submit_all(it)
            await elections(it, clock, lambda: bool(second.leads))
            await it.completed(*GANGS)
            assert (first.leads, second.leads) == (1, 1)
            assert first.part.task is not None and first.part.task.done(), "it gave up when its lease ran out"
            nothing_lost(it)
        finally:
            for candidate in (first, second):
                await candidate.part.kill()


async def test_the_history_of_a_pod_on_the_server_agrees_with_the_watch(config: ClusterConfig) -> None:
    """The ledger, by which the others are judged, sees what a list shows."""
    async with plane(config) as it:
        await it.submit("one", 3)
        await it.completed("one")
        client = HttpClient(config)
        try:
            listed = (await client.list(PODS, it.namespace)).items
        finally:
            await client.close()
        assert {pod.metadata.uid: pod.spec.node_name for pod in listed} == it.ledger.bound_to
