"""The Lease that tells that cycles end, and what clients conclude from it."""

from __future__ import annotations

from typing import Any

import pytest
from scheduler_world import Fixed, fill, world

from support.build import config
from support.memory import MemoryClient
from unisono.api.annotations import CONFIGURATION_ERROR, ENFORCED_QUEUE_FIELDS
from unisono.api.base import ObjectMeta
from unisono.api.core import Lease, LeaseSpec
from unisono.api.groups.scheduling import Queue, QueueSpec
from unisono.api.kinds import EVENTS, LEASES, QUEUES
from unisono.api.times import parse_time, rfc3339, rfc3339_micro
from unisono.errors import ApiError
from unisono.sdk.overview.components import judge

NOW = 1_700_000_000.0
KEY = "kube-system/unisono-scheduler-cycles"


def spec(client: MemoryClient) -> dict[str, Any]:
    return dict(client.raw(LEASES, KEY)["spec"])


async def test_one_write_in_ten_seconds_while_cycles_end_and_the_holder_goes_with_the_scheduler() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})
    async with world(client) as it:
        await it.run(3)
        before = parse_time(spec(client)["renewTime"])
        written = len(it.writes("patch", "leases"))
        await it.run(60)
        assert 5 <= len(it.writes("patch", "leases")) - written <= 7
        assert parse_time(spec(client)["renewTime"]) - before >= 45
        assert it.scheduler.unready() == []
    assert not spec(client).get("holderIdentity")


async def test_it_is_working_once_the_lease_says_that_it_is_alive() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})
    async with world(client) as it:
        assert not it.scheduler.working.is_set()
        while not it.scheduler.working.is_set():
            await it.run(0.001)
        assert parse_time(spec(client)["renewTime"]) <= it.clock.time()


async def test_a_lease_that_cannot_be_written_keeps_nothing_from_working() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})

    def refuse(operation: str, resource: str, namespace: str, name: str) -> None:
        if resource == "leases":
            raise ApiError("leases are not yours to write", code=403, reason="Forbidden")

    client.interceptor = refuse
    async with world(client) as it:
        await it.run(3)
        assert it.scheduler.working.is_set()


async def test_cycles_that_fail_renew_nothing_and_the_scheduler_is_not_ready() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})

    def broken(*_: object, **__: object) -> Any:
        raise RuntimeError("no decision")

    async with world(client, engine=broken) as it:
        await it.run(45)
        assert [write.resource for write in client.writes].count("leases") == 0
        (why,) = it.scheduler.unready()
        assert why.startswith("no cycle has ended for 4")
        assert not it.scheduler.working.is_set()


async def test_a_refused_configuration_stands_in_the_lease_until_it_is_corrected() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})
    source = Fixed()
    async with world(client, config=source) as it:
        await it.run(3)
        source.error = "tiers[0]: no plug-in is called gnag"
        it.nudge()
        await it.run(2)
        annotations = client.raw(LEASES, KEY)["metadata"]["annotations"]
        assert annotations[CONFIGURATION_ERROR] == source.error
        source.error = ""
        it.nudge()
        await it.run(2)
        assert CONFIGURATION_ERROR not in client.raw(LEASES, KEY)["metadata"]["annotations"]


async def test_the_lease_and_a_metric_say_what_queues_state_in_vain() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})
    client.put(QUEUES, Queue(metadata=ObjectMeta(name="org"), spec=QueueSpec(deserved={"cpu": "4"}, weight=2)))
    source = Fixed()
    async with world(client, config=source) as it:
        await it.run(3)
        gauges = it.scheduler.metrics.unenforced
        assert client.raw(LEASES, KEY)["metadata"]["annotations"][ENFORCED_QUEUE_FIELDS] == ""
        counted = {field: gauge.collect()[0].samples[0].value for field, gauge in gauges.items()}
        assert {field: number for field, number in counted.items() if number} == {"weight": 1.0, "deserved": 1.0}
        source.config = config(("proportion",))
        await it.run(25)
        assert client.raw(LEASES, KEY)["metadata"]["annotations"][ENFORCED_QUEUE_FIELDS] == "guarantee,priority,weight"


def lease(name: str, age: float, holder: str | None = "x", error: str = "") -> Lease:
    meta = ObjectMeta(name=name, namespace="kube-system", annotations={CONFIGURATION_ERROR: error} if error else None)
    renewed = LeaseSpec(holder_identity=holder, lease_duration_seconds=30, renew_time=rfc3339_micro(NOW - age))
    return Lease(metadata=meta, spec=renewed)


@pytest.mark.parametrize(
    ("leases", "silent"),
    [
        ([], ""),
        ([lease("a", 29)], ""),
        ([lease("a", 45)], "no cycle has ended for 45 s"),
        ([lease("a", 500), lease("b", 3)], ""),
        ([lease("a", 62, holder=None)], "no scheduler is running: the last one ended 62 s ago"),
        # A clock that is ahead.
        ([lease("a", -20)], ""),
    ],
)
def test_what_clients_conclude(leases: list[Lease], silent: str) -> None:
    found = judge(leases, "volcano", NOW).silent
    assert silent in found and bool(silent) == bool(found)


def test_a_refused_configuration_is_told_while_the_scheduler_is_alive() -> None:
    assert judge([lease("a", 3, error="line 4: no")], "volcano", NOW).configuration_error == "line 4: no"


async def test_a_configuration_that_is_refused_and_accepted_is_told_by_events_on_the_lease() -> None:
    async with world() as w:
        for error in ("line 3: no plug-in gangg", "line 3: no plug-in gangg", ""):
            w.config.error = error
            w.nudge()
            await w.run(3.0)
        told = [event for event in w.client.objects(EVENTS) if event.involved_object.kind == "Lease"]
    assert [(event.type, event.reason) for event in told] == [
        ("Warning", "ConfigurationRefused"),
        ("Normal", "ConfigurationAccepted"),
    ]
    assert "no plug-in gangg" in (told[0].message or "")
    assert told[0].involved_object.name == "unisono-scheduler-cycles"


def placed(namespace: str, created: float, given: Lease) -> Lease:
    given.metadata.namespace, given.metadata.creation_timestamp = namespace, rfc3339(NOW + created)
    return given


@pytest.mark.parametrize("system", ["kube-system", "volcano-system"])
@pytest.mark.parametrize("age", [0.0, -1e9])
def test_what_users_write_in_their_own_namespaces_says_nothing(system: str, age: float) -> None:
    real = placed(system, -1000.0, lease("unisono-scheduler-cycles", 3.0))
    forged = placed("team", -10.0, lease("unisono-scheduler-cycles", age, None, "an error"))
    assert judge([forged, real], "volcano", NOW) == judge([real], "volcano", NOW)
    hung = placed(system, -1000.0, lease("unisono-scheduler-cycles", 100.0))
    alive = placed("team", -10.0, lease("unisono-scheduler-cycles", age))
    assert "no cycle has ended for 100 s" in judge([alive, hung], "volcano", NOW).silent


def test_a_renewal_in_the_future_says_nothing() -> None:
    assert judge([lease("a", -1e6, None), lease("b", 3.0)], "volcano", NOW).silent == ""
