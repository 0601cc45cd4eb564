"""One future of a cluster by the fast model: what ends, comes and starts, event by event."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import inf

import numpy as np

from unisono.cluster.resources import CPU, PODS, Vector
from unisono.simulator.forecast.fast import MANY, Entry, FastModel, Held, Index, Kind, Places, holds
from unisono.simulator.forecast.shares import Shares
from unisono.simulator.workload.job import Job
from unisono.simulator.world.live_jobs import Adopted
from unisono.simulator.world.outcome import COMPLETED, RUNNING, WAITING, JobOutcome, Run, Stretch

_STEPS = 1000
"""What ends within one such part of a long future ends together."""
_FEW = 200
"""So few jobs are told apart to the second."""


class Future:
    """One future of a cluster, until it ends.

    Args:
        model: of the cluster.
        adopted: jobs of the model with run times, in its order.
        coming: jobs that come, in the order of their times.
        until: seconds after which it ends.
        whole: go on when all jobs that wait have started.
    """

    def __init__(
        self, model: FastModel, adopted: Sequence[Adopted], coming: Sequence[Job], until: float, *, whole: bool
    ) -> None:
        self._model, self._until, self._adopted = model, until, adopted
        self._coming, self._next = coming, 0
        self._free, self._fitting = model.free.copy(), model.fitting.copy()
        self._total = self._fitting.sum(axis=1)
        self._outcomes = [JobOutcome(each.job) for each in adopted] + [JobOutcome(job) for job in coming]
        self._waiting: list[list[Entry]] = [[] for _ in model.kinds]
        self._count = np.zeros(len(model.kinds), dtype=np.int64)
        self._blocked = model.lost.copy()
        self._held: dict[int, Held] = {}
        self._ends: list[tuple[float, int, int]] = []
        self._binds = self._serial = 0
        asked = np.zeros_like(model.bounds.held)
        for at, each in enumerate(adopted):
            if each.started is not None:
                self._outcomes[at].started = each.started
                self._run(at, model.held[at], 0.0, each.left[0])
            elif (entry := model.entries.get(at)) is not None:
                kind = model.kind_of[at]
                self._waiting[kind].append(entry)
                self._count[kind] += 1
                if not model.lost[kind]:
                    asked[model.kinds[kind].queue] += model.kinds[kind].need
        for line in self._waiting:
            heapify(line)
        self._left = -1 if whole else int(self._count[~model.lost].sum())
        self._shares = Shares(model.bounds, asked, len(self._outcomes))
        self._step = until / _STEPS if len(self._outcomes) > _FEW and until < inf else 0.0

    def run(self) -> Run:
        """Live until the end."""
        now, model = 0.0, self._model
        while True:
            self._shares.look(last=not self._ends)
            self._start_all(now)
            while model.preempts and self._preempt(now):
                self._start_all(now)
            arrival = self._coming[self._next].submit if self._next < len(self._coming) else inf
            first = min(arrival, self._ends[0][0] if self._ends else inf)
            if self._left == 0 or first > self._until or first == inf:
                break
            now = self._pass(min(first + self._step, self._until))
        end = self._until if self._left and self._until < inf else now
        for at, held in self._held.items():
            self._close(at, held, end, "end", RUNNING)
        names = tuple(node.metadata.name for node in model.cluster.nodes)
        gpus, cpu = (int(model.table.allocatable[row, model.usable].sum()) for row in (model.gpu_row, CPU))
        capacity = [(0.0, gpus if model.gpu_row != PODS else 0, cpu)]
        return Run(model.cluster, names, self._outcomes, end=end, binds=self._binds, capacity=capacity)

    def _pass(self, until: float) -> float:
        """Let everything happen that ends or comes by then; when the last of it does."""
        now, touched = 0.0, []
        while self._ends and self._ends[0][0] <= until:
            now, at, serial = heappop(self._ends)
            if at not in self._held or self._held[at].serial != serial:
                continue  # it was evicted before
            held = self._held.pop(at)
            self._close(at, held, now, "completed", COMPLETED)
            if held.queue >= 0:
                self._shares.end(held.queue, held.amounts)
            for columns, shape, numbers in held.places:
                self._change(columns, shape, -numbers)
                touched.append(columns)
        if touched:
            self._count_again(np.unique(np.concatenate(touched)))
            self._blocked = self._model.lost.copy()
        while self._next < len(self._coming) and self._coming[self._next].submit <= until:
            job, number = self._coming[self._next], len(self._adopted) + self._next
            self._next += 1
            now = max(now, job.submit)
            kind = self._model.kind_number(job)
            self._wait(kind, self._model.entry_of(number, job, job.priority, self._model.now + job.submit))
        return now

    def _wait(self, kind: int, entry: Entry) -> None:
        """A job waits from now on."""
        heappush(self._waiting[kind], entry)
        self._count[kind] += 1
        if not self._model.lost[kind]:
            self._shares.come(self._model.kinds[kind].queue, self._model.kinds[kind].need)

    # ---- starts

    def _start_all(self, now: float) -> None:
        for beyond in (False, True) if self._model.bounds.exceeds else (False,):
            every: Index = np.arange(len(self._count))
            able = self._startable(every, beyond=beyond)
            while (kind := self._first(able)) is not None:
                places = self._place(kind, beyond=beyond)
                if places is None:
                    self._blocked[kind] = True
                else:
                    self._start(kind, places, now)
                able = self._startable(able, beyond=beyond)  # nothing becomes free meanwhile

    def _startable(self, among: Index, *, beyond: bool) -> Index:
        """Kinds of which a job may fit."""
        model = self._model
        some: Index = among[(self._count[among] > 0) & ~self._blocked[among]]
        if not len(some):
            return some
        some = some[(self._total[model.part_shapes[some]] >= model.part_least[some]).all(axis=1)]
        if not len(some):
            return some
        room, need = self._shares.room(beyond=beyond)[model.kind_queue[some]], model.kind_need[some]
        return np.asarray(some[((need <= room) | (need == 0)).all(axis=1)])

    def _first(self, kinds: Index) -> int | None:
        """The kind whose first job is served next."""
        by_queue: dict[int, list[int]] = {}
        for kind in kinds.tolist():
            by_queue.setdefault(self._model.kinds[kind].queue, []).append(kind)
        for queue in sorted(by_queue, key=self._shares.key) if len(by_queue) > 1 else by_queue:
            first = min(by_queue[queue], key=self._head)
            if not self._model.bounds.strict[queue] or self._leads(queue, first):
                return first
        return None

    def _head(self, kind: int) -> Entry:
        return self._waiting[kind][0]

    def _leads(self, queue: int, kind: int) -> bool:
        """Whether the first job of a kind is the first of its queue, which keeps strict order."""
        kinds = np.flatnonzero((self._count > 0) & (self._model.kind_queue == queue) & ~self._model.lost)
        return min(kinds.tolist(), key=self._head) == kind

    def _place(self, number: int, *, beyond: bool) -> Places | None:
        """Places for a gang of this kind, which are taken; None: it does not fit."""
        kind = self._model.kinds[number]
        if kind.domains is None:
            return self._place_in(kind, None, beyond=beyond)
        for columns in kind.domains:
            if holds(kind, self._fitting, columns):
                places = self._place_in(kind, columns, beyond=beyond)
                if places is not None:
                    return places
        return None

    def _place_in(self, kind: Kind, columns: Index | None, *, beyond: bool) -> Places | None:
        places: Places = []
        for part in kind.parts:
            taken = self._take(part.shape, part.least, columns) if part.least else None
            if taken is not None:
                places.append(taken)
            elif part.least:
                self._give_back(places)
                return None
        if any(part.most > part.least for part in kind.parts):
            room = self._shares.room(beyond=beyond)[kind.queue] - kind.need
            self._take_more(kind, columns, room, places)
        return places

    def _take_more(self, kind: Kind, columns: Index | None, room: Vector, places: Places) -> None:
        """Pods beyond the gang, as far as they fit."""
        for part in kind.parts:
            need = self._model.needs[part.shape]
            asked = need > 0
            number = min(part.most - part.least, int((room[asked] // need[asked]).min(initial=MANY)))
            there = self._fitting[part.shape] if columns is None else self._fitting[part.shape, columns]
            taken = self._take(part.shape, min(number, int(there.sum())), columns)
            if taken is not None:
                places.append(taken)
                room = room - need * taken[2].sum()

    def _take(self, shape: int, number: int, columns: Index | None) -> tuple[Index, int, Vector] | None:
        """So many pods on the fullest nodes that have room; None where there are too few."""
        there = self._fitting[shape]
        columns = np.flatnonzero(there) if columns is None else columns[there[columns] > 0]
        room = there[columns]
        if number <= 0 or room.sum() < number:
            return None
        order = np.lexsort((room, self._free[self._model.gpu_row, columns]))
        columns, room = columns[order], room[order]
        reached = np.cumsum(room)
        last = int(np.searchsorted(reached, number))
        columns, numbers = columns[: last + 1], room[: last + 1].copy()
        numbers[-1] -= reached[last] - number
        self._change(columns, shape, numbers)
        self._count_again(columns)
        return columns, shape, numbers

    def _give_back(self, places: Places) -> None:
        for columns, shape, numbers in places:
            self._change(columns, shape, -numbers)
            self._count_again(columns)

    def _change(self, columns: Index, shape: int, numbers: Vector) -> None:
        self._free[:, columns] -= self._model.needs[shape][:, None] * numbers

    def _count_again(self, columns: Index) -> None:
        fresh = self._model.fitting_on(self._free[:, columns], columns)
        self._total += (fresh - self._fitting[:, columns]).sum(axis=1)
        self._fitting[:, columns] = fresh

    def _start(self, kind: int, places: Places, now: float) -> None:
        model, what = self._model, self._model.kinds[kind]
        at = heappop(self._waiting[kind])[-1]
        self._count[kind] -= 1
        amounts = sum((model.needs[shape] * numbers.sum() for _, shape, numbers in places), what.whole)
        self._shares.start(what.queue, what.need, amounts)
        first = self._outcomes[at].started is None
        if first:
            self._outcomes[at].started = now
        self._binds += int(sum(numbers.sum() for _, _, numbers in places))
        work = self._outcomes[at].job.work
        if at < len(self._adopted):
            held, adopted = model.held[at], self._adopted[at]
            work = adopted.left[0] - (adopted.started or 0.0)  # what it had done before an eviction is lost
            if held.places and adopted.started is None:
                places, amounts = [*held.places, *places], held.amounts + amounts
            self._left -= first
        self._run(at, Held(what.queue, amounts, places), now, work, model.startup)

    # ---- evictions

    def _priority(self, at: int) -> int:
        model = self._model
        return model.priorities[at] if at < len(self._adopted) else self._outcomes[at].job.priority

    def _preempt(self, now: float) -> bool:
        """Let the first job in order that can be helped so evict jobs of its queue; whether there was one."""
        lowest: dict[int, int] = {}
        for at, held in self._held.items():
            if self._can_go(at):
                lowest[held.queue] = min(self._priority(at), lowest.get(held.queue, MANY))
        for kind in sorted(np.flatnonzero((self._count > 0) & ~self._model.lost).tolist(), key=self._head):
            queue, priority = self._model.kinds[kind].queue, self._priority(self._head(kind)[-1])
            if priority > lowest.get(queue, MANY) and self._make_room(kind, priority, now):
                return True
        return False

    def _can_go(self, at: int) -> bool:
        """Whether a running job may be evicted here: what of it waits again must be known."""
        return at >= len(self._adopted) or (self._model.kind_of[at] >= 0 and not self._holds_part(at))

    def _holds_part(self, at: int) -> bool:
        """Whether the job had some places before it started."""
        return self._adopted[at].started is None and bool(self._model.held[at].places)

    def _make_room(self, kind: int, priority: int, now: float) -> bool:
        """Evict as few whole jobs as it takes, those of the lowest priority and the latest ones first."""
        queue = self._model.kinds[kind].queue
        able = [at for at, held in self._held.items() if held.queue == queue and self._can_go(at)]
        able = [at for at in able if self._priority(at) < priority]
        able.sort(key=lambda at: (self._priority(at), -(self._held[at].serial)))
        gone: list[int] = []
        for at in able:
            if not self._is_near(kind, at):
                continue
            self._let_go(at, 1)
            gone.append(at)
            if not self._fits_now(kind) or (places := self._place(kind, beyond=False)) is None:
                continue
            for other in gone[:-1]:
                if self._is_spared(other):
                    self._let_go(other, -1)
                    gone.remove(other)
            for other in gone:
                self._evict(other, now)
            self._start(kind, places, now)
            self._blocked = self._model.lost.copy()
            return True
        for at in gone:
            self._let_go(at, -1)
        return False

    def _is_near(self, kind: int, at: int) -> bool:
        """Whether the job holds nodes that this kind may use."""
        masks = [self._model.masks[part.shape] for part in self._model.kinds[kind].parts]
        return any(mask[columns].any() for columns, _, _ in self._held[at].places for mask in masks)

    def _fits_now(self, kind: int) -> bool:
        model = self._model
        need, room = model.kind_need[kind], self._shares.room()[model.kinds[kind].queue]
        whole = self._total[model.part_shapes[kind]] >= model.part_least[kind]
        return bool(whole.all() and ((need <= room) | (need == 0)).all())

    def _let_go(self, at: int, sign: int) -> None:
        """Take what a job holds, or give it back (-1)."""
        held = self._held[at]
        for columns, shape, numbers in held.places:
            self._change(columns, shape, -sign * numbers)
        self._count_again(np.unique(np.concatenate([columns for columns, _, _ in held.places])))
        self._shares.end(held.queue, sign * held.amounts)

    def _is_spared(self, at: int) -> bool:
        """Whether what it held is still free."""
        held = self._held[at]
        for columns, shape, numbers in held.places:
            if (self._free[:, columns] < self._model.needs[shape][:, None] * numbers).any():
                return False
        room = self._shares.room()[held.queue]
        return bool(((held.amounts <= room) | (held.amounts == 0)).all())

    def _evict(self, at: int, now: float) -> None:
        """What it held is free already; it waits again, and begins anew."""
        held, outcome, model = self._held.pop(at), self._outcomes[at], self._model
        outcome.evictions += int(sum(numbers.sum() for _, _, numbers in held.places))
        self._close(at, held, now, "evicted", WAITING)
        live = at < len(self._adopted)
        kind = model.kind_of[at] if live else model.kind_number(outcome.job)
        created = model.created[at] if live else model.now + outcome.job.submit
        self._wait(kind, model.entry_of(at, outcome.job, self._priority(at), created))

    def _run(self, at: int, held: Held, now: float, work: float, startup: float = 0.0) -> None:
        """A job runs from now on."""
        model, job = self._model, self._outcomes[at].job
        number = model.node_numbers
        nodes = tuple(
            number[column]
            for columns, _, numbers in held.places
            for column, times in zip(columns.tolist(), numbers.tolist(), strict=True)
            for _ in range(times)
        )
        rate = model.speed.rate(nodes, job.pods) if nodes else 1.0
        gpus = int(held.amounts[model.gpu_row]) if model.gpu_row != PODS else 0
        stretch = Stretch(now, now, 0, nodes, tuple(range(len(nodes))), gpus, int(held.amounts[CPU]))
        self._serial += 1
        self._held[at] = Held(held.queue, held.amounts, held.places, stretch, self._serial)
        if work < inf and rate > 0:
            heappush(self._ends, (now + startup + work / rate, at, self._serial))

    def _close(self, at: int, held: Held, now: float, cause: str, state: str) -> None:
        outcome = self._outcomes[at]
        outcome.state = state
        outcome.ended = now if state == COMPLETED else None
        if held.stretch is not None:
            held.stretch.end, held.stretch.cause = now, cause
            outcome.stretches.append(held.stretch)
