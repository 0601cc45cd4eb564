"""Counts what Budgets say may be used, and keeps the count in their status.

The status says up to which moment everything is counted, and up to which version of the server's state all changes of
pods were heard of by then. Who takes over counts from that moment on: by the pods that are there, and by those that the
server tells were deleted since. Where it does not remember that far back, the status says that use is missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import inf
from typing import Any

import msgspec

from unisono.api.base import Object
from unisono.api.budget_use import PriceTime, Uses
from unisono.api.budgets import MONEY, Prices, Purse, prices_of, purse_of, tally_of
from unisono.api.core import Node, Pod
from unisono.api.groups.budgets import Budget, PriceList
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.kind import Kind
from unisono.api.kinds import BUDGETS, NODES, POD_GROUPS, PODS, PRICE_LISTS, QUEUES
from unisono.api.licenses import PREFIX
from unisono.api.selecting import ROOT
from unisono.api.times import rfc3339, time_or
from unisono.controllers.budgets.decide import LAG_SECONDS, look
from unisono.controllers.objects import LastWritten, write_status
from unisono.controllers.recorder import Recorder
from unisono.errors import ApiError, NotFound, SetAside
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

_CATCH_UP_SECONDS = 2.0
"""So long the server is asked for what was deleted meanwhile; it tells what it knows at once."""
_SETTLE_SECONDS = 1.0
_MOST_MARKS = 1000
_FORGET_SECONDS = 600.0
_MOST_PRICE_TIMES = 16


class BudgetController(Controller):
    """Keeps the status of Budgets."""

    name = "budget-controller"
    workers = 1

    def __init__(self, recorder: Recorder, default_queue: str = "default") -> None:
        self._recorder, self._default_queue = recorder, default_queue
        self._written: LastWritten[Budget] = LastWritten()
        self._uses = Uses(default_queue)
        # What was used before prices changed costs what they were; the first time began before all that is counted.
        self._priced = [PriceTime(-inf, 0, {})]
        self._started = False
        # When which version of the server's state was known: (time, resourceVersion).
        self._marks: deque[tuple[float, str]] = deque(maxlen=_MOST_MARKS)
        # Resources that nodes have had: one that is away for an hour is not misspelt.
        self._resources: set[str] = set()
        self._gap: dict[str, str] = {}
        self._following = False

    def setup(self, context: Context) -> None:
        """Watch budgets and prices, and whose pods hold what."""
        self._budgets = context.watch(BUDGETS, when=_is_said, optional=True)
        self._lists = context.informers.of(PRICE_LISTS, optional=True)
        context.used.append(self._lists)
        self._pods, self._groups = context.informer(PODS), context.informer(POD_GROUPS)
        self._nodes, self._queues = context.informer(NODES), context.informer(QUEUES)
        self._lists.on_change(self._prices_changed)
        self._nodes.on_change(self._node_changed)
        self._queues.on_change(self._queue_changed)
        self._groups.on_change(self._group_changed)
        self._pods.on_change(self._pod_changed)

    async def start(self) -> None:
        """Take in what is there, and what was deleted since it was counted last."""
        self._started = True
        if len(self._budgets):
            self._follow()
            await self._catch_up()

    def _follow(self) -> None:
        """Take in what is there; without budgets nothing is kept of pods, of which there may be a million."""
        self._following = True
        for node in self._nodes.items():
            self._put_node(node)
        for queue in self._queues.items():
            self._uses.put_queue(queue.metadata.name, queue.spec.parent or "")
        for group in self._groups.items():
            self._uses.put_group(group)
        now = self._clock.time()
        for pod in self._pods.items():
            self._uses.put_pod(pod, now)
        self._mark()

    # ---- what was missed

    async def _catch_up(self) -> None:
        """Hear of the pods that were deleted since budgets were counted last, by whoever counted then."""
        versions: dict[str, list[Budget]] = {}
        for budget in self._budgets.items():
            if budget.status.pods:
                versions.setdefault(budget.status.pods, []).append(budget)
            elif budget.status.counted:
                self._gap[budget.key] = _missing(budget, self._clock.time())
        for version, budgets in versions.items():
            try:
                groups = await self._deleted(POD_GROUPS, version)
                pods = await self._deleted(PODS, version)
            except ApiError:  # too long ago, or another server
                self._gap |= {budget.key: _missing(budget, self._clock.time()) for budget in budgets}
                continue
            for group in groups:
                self._uses.put_group(group)
            for pod in pods:
                self._uses.put_pod(pod, _deleted_at(pod, self._clock.time()), gone=True)
            for group in groups:
                if self._groups.get(group.key) is None:
                    self._uses.put_group(group, gone=True)

    async def _deleted(self, kind: Kind[Any], version: str) -> list[Any]:
        deleted: list[Object] = []
        async for event in self._client.watch(kind, resource_version=version, timeout_seconds=_CATCH_UP_SECONDS):
            if event.type == "DELETED" and not event.error:
                deleted.append(event.object)
        return deleted

    def _mark(self) -> None:
        version = self._pods.resource_version
        if version and (not self._marks or self._marks[-1][1] != version):
            self._marks.append((self._clock.time(), version))

    # ---- what changes

    def _prices_changed(self, event_type: EventType, new: PriceList, old: PriceList | None) -> None:
        last = self._priced[-1]
        prices: dict[str, Prices] = dict(last.prices)
        if event_type == "DELETED":
            prices.pop(new.metadata.name, None)
        else:
            try:
                prices[new.metadata.name] = prices_of(new)
            except ValueError:
                return
        if prices == last.prices:
            return
        self._priced.append(PriceTime(self._clock.time(), last.version + 1, prices))
        self._drop_prices(-inf if self._started else inf)
        self._look_again(self._budgets.keys())

    def _drop_prices(self, before: float) -> None:
        """Drop prices that had changed by a moment, and the oldest of too many; those that are left hold from ever."""
        while len(self._priced) > 1 and (self._priced[1].since <= before or len(self._priced) > _MOST_PRICE_TIMES):
            del self._priced[0]
            self._priced[0] = self._priced[0]._replace(since=-inf)

    def _node_changed(self, event_type: EventType, new: Node, old: Node | None) -> None:
        if self._following and event_type != "DELETED":
            self._put_node(new)

    def _put_node(self, node: Node) -> None:
        self._uses.put_node(node)
        self._resources.update(node.status.allocatable or ())

    def _queue_changed(self, event_type: EventType, new: Queue, old: Queue | None) -> None:
        if self._following and event_type != "DELETED":
            self._uses.put_queue(new.metadata.name, new.spec.parent or "")
        if event_type != "MODIFIED":
            self._look_again(self._budgets.keys())

    def _group_changed(self, event_type: EventType, new: PodGroup, old: PodGroup | None) -> None:
        if self._following:
            self._uses.put_group(new, gone=event_type == "DELETED")

    def _pod_changed(self, event_type: EventType, new: Pod, old: Pod | None) -> None:
        if not self._following:
            return
        moved = self._uses.put_pod(new, self._clock.time(), gone=event_type == "DELETED")
        self._mark()
        if moved and len(self._budgets):
            self._look_again(self._uses.names_of(moved, new.metadata.namespace or "", self._purses()))

    def _purses(self) -> list[Any]:
        purses = []
        for budget in self._budgets.items():
            try:
                purses.append(purse_of(budget))
            except ValueError:
                continue
        return purses

    def _look_again(self, names: Iterable[str]) -> None:
        for name in names:
            self._context.enqueue(name, _SETTLE_SECONDS)

    # ---- counting

    async def reconcile(self, key: str) -> float | None:
        """Count one, and write the count down where it is time to."""
        budget = self._written.newest(key, self._budgets.get(key))
        if budget is None or budget.metadata.deletion_timestamp:
            self._gap.pop(key, None)
            return None
        try:
            purse = purse_of(budget)
        except ValueError as error:
            raise SetAside(str(error)) from error
        if not self._following:
            self._follow()
        self._mark()
        now, tally = self._clock.time(), tally_of(budget, purse)
        holds = self._uses.holds_over(purse, self._priced)
        outcome = look(budget, purse, tally, holds, now, self._gap_of(budget), self._lacks(purse))
        if outcome.status is not None:
            status = msgspec.structs.replace(
                outcome.status, pods=self._known_at(now - LAG_SECONDS) or outcome.status.pods
            )
            try:
                self._written.keep(await write_status(self._client, BUDGETS, budget, status))
            except NotFound:
                return None
            for notice in outcome.notices:
                self._recorder.event(budget, notice.type, notice.reason, notice.message)
            self._forget(now)
        return outcome.again

    def _lacks(self, purse: Purse) -> str:
        """What a budget names that is not there; empty where all is."""
        messages: list[str] = []
        if MONEY in purse.amounts and purse.prices not in self._priced[-1].prices:
            messages.append(f"there is no PriceList {purse.prices}, so that nothing costs anything")
        names = sorted(purse.queues - {ROOT})
        messages += [f"there is no queue {name}" for name in names if self._queues.get(name) is None]
        messages += [
            f"no node has {name}"
            for name in purse.amounts
            if self._resources and name not in (MONEY, *self._resources) and not name.startswith(PREFIX)
        ]
        return "; ".join(messages)

    def _gap_of(self, budget: Budget) -> str:
        """What is missing in this period; a new period is complete."""
        gap = self._gap.get(budget.key)
        if gap is None:
            before = next((one for one in budget.status.conditions or () if one.type == "Counted"), None)
            gap = before.message or "" if before is not None and before.status == "False" else ""
            if gap:
                self._gap[budget.key] = gap
        end = time_or(budget.status.period_end, inf) if budget.status.period_end else inf
        if gap and self._clock.time() >= end:
            self._gap.pop(budget.key, None)
            return ""
        return gap

    def _known_at(self, moment: float) -> str:
        """The newest version of the server's state that was known at a moment; empty where none was."""
        newest = ""
        for at, version in self._marks:
            if at > moment:
                break
            newest = version
        return newest

    def _forget(self, now: float) -> None:
        """Drop what every budget has counted."""
        counted, longest = now, 0.0
        for budget in self._budgets.items():
            newest = self._written.newest(budget.key, budget) or budget
            counted = min(counted, time_or(newest.status.counted, -inf))
        for purse in self._purses():
            longest = max(longest, purse.least)
        self._uses.forget(min(counted, now - _FORGET_SECONDS), longest)
        self._drop_prices(counted)


def _is_said(event_type: EventType, new: Budget, old: Budget | None) -> bool:
    """Changes of what a budget says: its status is written here."""
    return event_type != "MODIFIED" or old is None or new.spec != old.spec or new.metadata.uid != old.metadata.uid


def _missing(budget: Budget, now: float) -> str:
    return (
        f"what pods used that were deleted from {budget.status.counted} to {rfc3339(now)} is not counted: "
        "the server does not remember them"
    )


def _deleted_at(pod: Pod, now: float) -> float:
    """When a pod went of which only that is known; it was told to go then, if it does not say when it ended."""
    return min(time_or(pod.metadata.deletion_timestamp, now), now)
