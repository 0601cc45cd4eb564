"""The Lease that tells that cycles end, and what clients conclude from it."""

from __future__ import annotations

from typing import Any

import pytest
from scheduler_world import Fixed, fill, world

from support.memory import MemoryClient
from unisono.api.annotations import CONFIGURATION_ERROR
from unisono.api.base import ObjectMeta
from unisono.api.core import Lease, LeaseSpec
from unisono.api.kinds import LEASES
from unisono.api.times import parse_time, rfc3339_micro
from unisono.sdk.scheduler_health import judge

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


async def test_a_refused_configuration_stands_in_the_lease_until_it_is_corrected() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})
    source = Fixed()
    async with world(client, config=source) as it:
        await it.run(3)
        source.error = "tiers[0]: no plug-in is called gnag"
        await it.run(25)
        annotations = client.raw(LEASES, KEY)["metadata"]["annotations"]
        assert annotations[CONFIGURATION_ERROR] == source.error
        source.error = ""
        await it.run(25)
        assert CONFIGURATION_ERROR not in client.raw(LEASES, KEY)["metadata"]["annotations"]


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
