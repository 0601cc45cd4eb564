"""Budgets are counted from when pods held their nodes, whoever counts, and their status says what follows."""

from __future__ import annotations

from typing import Any

import pytest
from controller_world import ControllerWorld

from support.build import budget, group, node, pod, price_list, queue
from unisono.api.annotations import USER
from unisono.api.core import PodCondition
from unisono.api.groups.budgets import Budget, Price
from unisono.api.kinds import BUDGETS, NODES, POD_GROUPS, PODS, PRICE_LISTS, QUEUES
from unisono.api.times import rfc3339, time_or
from unisono.controllers.budgets.controller import BudgetController
from unisono.kube.controller import Controller


class World(ControllerWorld):
    namespace = "ns"

    def make_controllers(self) -> list[Controller]:
        return [BudgetController(self.recorder)]

    async def begin(self, amounts: dict[str, Any], **spec: Any) -> None:
        there = budget("team", amounts, **spec)
        await self.client.create(QUEUES, queue("default"))
        self.client.put(NODES, node("node-0", labels={"kind": "spot"}))
        await self.advance(1)
        there.metadata.creation_timestamp = rfc3339(self.clock.time())
        await self.client.create(BUDGETS, there)
        await self.advance(1)

    async def job(self, name: str, *, user: str = "ann", **requests: Any) -> None:
        await self.client.create(POD_GROUPS, group(name, 1, annotations={USER: user}))
        await self.client.create(PODS, pod(f"{name}-0", name, **({"cpu": 1} | requests)))

    async def runs(self, name: str) -> None:
        await self.pod(f"{name}-0", "Running")

    async def ends(self, name: str, phase: str = "Succeeded") -> None:
        await self.pod(f"{name}-0", phase)

    def conditions(self, phase: str) -> list[PodCondition]:
        now = rfc3339(self.clock.time())
        return (
            [PodCondition(type="PodScheduled", status="True", last_transition_time=now)] if phase == "Running" else []
        )

    async def status(self) -> Any:
        return (await self.client.get(BUDGETS, "team")).status

    async def condition(self, name: str) -> str:
        (found,) = [one for one in (await self.status()).conditions if one.type == name]
        return str(found.status)

    async def used(self, name: str = "cpu") -> float:
        """Seconds of one that are in the status."""
        return float((await self.status()).used[name]) * 3600.0

    def there(self) -> Budget:
        found = self.client.find(BUDGETS, "team")
        assert found is not None
        return found


async def test_what_pods_hold_is_counted_from_node_to_end() -> None:
    async with World() as it:
        await it.begin({"cpu": 100})
        await it.job("a", cpu=2)
        await it.advance(100)
        await it.runs("a")
        await it.advance(300)
        status = await it.status()
        assert status.rate == {"cpu": "2"}
        assert await it.used() == pytest.approx(2 * (time_or(status.counted) - (it.clock.time() - 300)), abs=0.01)
        assert time_or(status.exhausted_at) == pytest.approx(it.clock.time() - 300 + 50 * 3600, abs=2)
        await it.ends("a")
        await it.advance(300)
        status = await it.status()
        assert await it.used() == pytest.approx(600, abs=0.01)
        assert (status.rate, status.exhausted_at) == (None, None)
        assert float(status.left["cpu"]) == pytest.approx(100 - 600 / 3600)


@pytest.mark.parametrize("how", ["restarted", "away while it ends", "away while it comes and goes", "twice"])
async def test_who_takes_over_counts_nothing_twice_and_loses_nothing(how: str) -> None:
    async with World() as it:
        await it.begin({"cpu": 100})
        await it.job("a", cpu=2)
        await it.runs("a")
        await it.advance(150)
        if how != "restarted":
            await it.stop()
        if how == "away while it ends":
            await it.clock.advance(500)
            await it.ends("a")
            it.client.remove(PODS, "ns/a-0")
            it.client.remove(POD_GROUPS, "ns/a")
            await it.clock.advance(50)
        elif how == "away while it comes and goes":
            await it.job("b", cpu=4)
            await it.runs("b")
            await it.clock.advance(200)
            await it.ends("b")
            it.client.remove(PODS, "ns/b-0")
            it.client.remove(POD_GROUPS, "ns/b")
            await it.clock.advance(300)
        elif how == "twice":
            await it.start()
            await it.advance(30)
            await it.stop()
            await it.clock.advance(470)
        if how == "restarted":
            await it.restart()
            await it.advance(500)
        else:
            await it.start()
        await it.advance(300)
        if how != "away while it ends":
            await it.ends("a")
            await it.advance(300)
        expected = {"restarted": 1900, "away while it ends": 1300, "away while it comes and goes": 2700, "twice": 1900}
        assert await it.used() == pytest.approx(expected[how], abs=0.1)
        (counted,) = [one for one in (await it.status()).conditions if one.type == "Counted"]
        assert counted.status == "True"


async def test_what_the_server_has_forgotten_is_said_to_be_missing() -> None:
    async with World() as it:
        await it.begin({"cpu": 100}, period="Hour")
        await it.job("a", cpu=2)
        await it.runs("a")
        await it.advance(150)
        await it.stop()
        it.client.remove(PODS, "ns/a-0")
        it.client.compact()
        await it.clock.advance(500)
        await it.start()
        await it.advance(300)
        (counted,) = [one for one in (await it.status()).conditions if one.type == "Counted"]
        assert (counted.status, counted.reason) == ("False", "Gap")
        assert "that were deleted from" in (counted.message or "")
        await it.advance(3600)
        (counted,) = [one for one in (await it.status()).conditions if one.type == "Counted"]
        assert counted.status == "True", "the new period is complete"


async def test_a_period_ends_and_the_next_one_begins_with_nothing() -> None:
    async with World() as it:
        await it.begin({"cpu": 1}, period="Hour", warn_at=[50, 90])
        start = it.clock.time()
        end = (await it.status()).period_end
        left = time_or(end) - start
        await it.job("a", cpu=1)
        await it.runs("a")
        await it.advance(left + 100)
        status = await it.status()
        assert time_or(status.period_start) == time_or(end)
        assert float(status.previous["cpu"]) * 3600 == pytest.approx(left, abs=1.01)
        assert await it.used() <= 100.1
        assert it.recorder.of("PeriodBegan")


async def test_percentages_and_the_end_are_told_once_also_by_who_takes_over() -> None:
    async with World() as it:
        await it.begin({"cpu": 1}, warn_at=[50, 90])
        await it.job("a", cpu=1)
        await it.runs("a")
        await it.advance(1795)
        assert it.recorder.of("BudgetWarning") == []
        await it.advance(10)
        (told,) = it.recorder.of("BudgetWarning")
        assert told.startswith("50% are used: 0.5 of 1 hours of cpu are used; it is used up at ")
        await it.restart()
        await it.advance(60)
        assert len(it.recorder.of("BudgetWarning")) == 1
        await it.advance(1790)
        assert len(it.recorder.of("BudgetWarning")) == 2
        assert it.recorder.of("BudgetUsedUp") == ["1 of 1 hours of cpu are used"]
        assert await it.condition("UsedUp") == "True"
        await it.restart()
        await it.advance(300)
        assert len(it.recorder.of("BudgetUsedUp")) == 1


@pytest.mark.parametrize(
    ("least", "evicted", "counts"), [("5m", False, 300), ("5m", True, 60), (None, False, 60)], ids=str
)
async def test_short_jobs_count_longer_but_for_those_that_had_to_go(
    least: str | None, evicted: bool, counts: float
) -> None:
    async with World() as it:
        await it.begin({"cpu": 100}, least=least)
        await it.job("a")
        await it.runs("a")
        await it.advance(60)
        if evicted:
            there = it.find_pod("a-0")
            mark = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
            there.status.conditions = [*(there.status.conditions or ()), mark]
            it.client.put(PODS, there)
        else:
            await it.ends("a")
        it.client.remove(PODS, "ns/a-0")
        await it.advance(400)
        assert await it.used() == pytest.approx(counts, abs=1.1)


async def test_money_and_users() -> None:
    async with World() as it:
        prices = price_list(Price("cpu", "7.20", {"kind": "spot"}), Price("cpu", "99"))
        await it.client.create(PRICE_LISTS, prices)
        await it.begin({"money": 100}, queues=None, users=["ann"])
        for name, user in (("a", "ann"), ("b", "bob")):
            await it.job(name, user=user)
            await it.runs(name)
        await it.advance(500)
        for name in ("a", "b"):
            await it.ends(name)
        await it.advance(300)
        assert await it.used("money") / 3600.0 == pytest.approx(1.0, abs=0.001)


async def priced(it: World, per_hour: str | None) -> None:
    """The one PriceList as it is from now on; None: there is none."""
    there = it.client.find(PRICE_LISTS, "default")
    if per_hour is None:
        it.client.remove(PRICE_LISTS, "default")
    elif there is None:
        await it.client.create(PRICE_LISTS, price_list(Price("cpu", per_hour)))
    else:
        it.client.put(PRICE_LISTS, price_list(Price("cpu", per_hour)))


@pytest.mark.parametrize(
    ("prices", "costs"),
    [
        (["36", "72"], 3.0),
        (["36", None], 1.0),
        (["36", None, "36"], 2.0),
        ([None, "36"], 1.0),
        (["36", "0", "72"], 3.0),
    ],
    ids=str,
)
async def test_what_was_used_costs_what_prices_were(prices: list[str | None], costs: float) -> None:
    """A CPU is held for 100 seconds at each of the prices, of which 36 is one for these; none costs nothing."""
    async with World() as it:
        await it.begin({"money": 100, "cpu": 100})
        before = None
        for at, price in enumerate(prices):
            if price != before:
                await priced(it, price)
            before = price
            await it.advance(1)
            if not at:
                await it.job("a")
                await it.runs("a")
            await it.advance(99)
        await it.ends("a")
        await it.advance(300)
        assert await it.used("money") / 3600.0 == pytest.approx(costs, abs=0.06)
        assert await it.used() == pytest.approx(100 * len(prices), abs=2)


async def test_what_is_left_goes_with_the_condition() -> None:
    async with World() as it:
        await it.begin({"cpu": 1})
        await it.job("a", cpu=1)
        await it.runs("a")
        await it.advance(3602)
        assert await it.condition("UsedUp") == "True"
        assert float((await it.status()).left["cpu"]) <= 0.0


async def test_a_price_list_that_is_not_there_is_told() -> None:
    async with World() as it:
        await it.begin({"money": 100})
        await it.advance(10)
        assert it.recorder.of("RefsNotFound") == ["there is no PriceList default, so that nothing costs anything"]
        assert await it.condition("ResolvedRefs") == "False"
        await priced(it, "1")
        await it.advance(10)
        assert await it.condition("ResolvedRefs") == "True"
        await priced(it, None)
        await it.advance(10)
        await it.restart()
        await it.advance(300)
        assert await it.condition("ResolvedRefs") == "False"
        assert len(it.recorder.of("RefsNotFound")) == 2


async def test_names_of_nothing_are_told_until_they_are_there() -> None:
    async with World() as it:
        await it.begin(
            {"cpu": 1, "nvidia.com/gpus": 10, "licenses.unisono.io/m": 1}, queues=["nosuch", "root", "default"]
        )
        await it.advance(300)
        said = "there is no queue nosuch; no node has nvidia.com/gpus"
        assert said in it.recorder.of("RefsNotFound")
        assert await it.condition("ResolvedRefs") == "False"
        await it.client.create(QUEUES, queue("nosuch"))
        await it.advance(10)
        assert it.recorder.of("RefsNotFound")[-1] == "no node has nvidia.com/gpus"
        here = node("node-1")
        here.status.allocatable = {"nvidia.com/gpus": "8"}
        it.client.put(NODES, here)
        await it.advance(300)
        assert await it.condition("ResolvedRefs") == "True"
        it.client.remove(NODES, "node-1")
        told = len(it.recorder.of("RefsNotFound"))
        await it.advance(300)
        assert len(it.recorder.of("RefsNotFound")) == told, "a node that comes back"


async def test_a_count_is_written_once_a_minute_while_something_runs() -> None:
    async with World() as it:
        await it.begin({"cpu": 100})
        await it.job("a")
        await it.runs("a")
        await it.advance(20)
        writes = len(it.client.writes)
        await it.advance(600)
        assert len(it.client.writes) - writes <= 11
        await it.ends("a")
        await it.advance(10)
        writes = len(it.client.writes)
        await it.advance(600)
        assert len(it.client.writes) - writes <= 3


async def test_the_last_seconds_of_a_pod_are_counted_soon() -> None:
    async with World() as it:
        await it.begin({"cpu": 100})
        await it.job("a")
        await it.runs("a")
        await it.advance(100)
        await it.ends("a")
        await it.advance(12)
        assert await it.used() == pytest.approx(100, abs=0.01)
