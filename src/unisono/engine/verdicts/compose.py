"""Changes that start one job together: what keeps it is asked again after each of them.

First as if the job waited alone, which costs a hundredth of a cycle of a large cluster: what does not start it alone
does not start it at all. Then with all that wait, of which some come before it and take what a change brings: then it
needs to come first, or more of the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import structs

from unisono.engine.changes import (
    AddNodes,
    Change,
    LowerMinAvailable,
    RaiseCapability,
    RaiseDeserved,
    RaiseQueuePriority,
    RaiseQuota,
    RaiseWeight,
    RequestAtMost,
    Together,
    UsePriority,
    parts_of,
)
from unisono.engine.verdicts.draft import Draft, Ladders
from unisono.engine.verdicts.effects import FIRST, LAST, OF_THE_JOB
from unisono.engine.verdicts.trial import Trials

Parts = tuple[Change, ...]

_MOST_PARTS = 5
_PORTIONS = 16
"""Of a raised amount, in which it is made smaller."""
_FEW_NODES = 8
"""That may be added for any job, however few pods it has."""
_MOST_OF_ONE = 3
"""How often an amount is raised further though the job waits for the same: those before it take some of it as well."""
_GROWTH = 4
"""By so much larger is each further step of an amount."""
_MOST_ROUNDS = 12
"""How often it is asked among all that wait what still keeps a job."""
_RAISED = (RaiseCapability, RaiseDeserved, RaiseQuota)
_OF_THE_LINE = (UsePriority, RaiseQueuePriority)
"""Changes that bring a job before others, which wait longer for them."""
_SMALLER = (LowerMinAvailable, RequestAtMost)
"""Changes after which the job is not what was asked for: the last ones to be tried."""
_OF_THE_JOB = (LowerMinAvailable, *OF_THE_JOB)
"""Changes by which the job itself would need less; jobs before it in the line get nothing from them."""


def together(parts: Parts) -> Change:
    """One change of several: first what brings it forward, nodes last, so that no other takes what the rest brings."""
    ordered = tuple(sorted(parts, key=lambda one: (isinstance(one, AddNodes), not isinstance(one, UsePriority))))
    return ordered[0] if len(ordered) == 1 else Together(ordered)


def beside(parts: Parts, change: Change) -> Parts | None:
    """The parts with one more change, or with more of one of them; None where both cannot be."""
    if isinstance(change, Together):
        combined: Parts | None = parts
        for one in reversed(change.changes):
            combined = None if combined is None else beside(combined, one)
        return combined
    for at, one in enumerate(parts):
        if (more := _more(one, change)) is not None:
            return (*parts[:at], more, *parts[at + 1 :])
    if change in parts or (isinstance(change, AddNodes) and any(isinstance(one, AddNodes) for one in parts)):
        return None  # nodes of two kinds: each of the kinds is a way of its own
    # What is found last lies deepest: queues above others, which the API wants to be raised first.
    return (change, *parts) if isinstance(change, _RAISED) else (*parts, change)


def _more(one: Change, change: Change) -> Change | None:
    """Both as one change of the same kind; None where they are of different objects."""
    if isinstance(one, AddNodes) and isinstance(change, AddNodes):
        # The richest node may be one that was added.
        added = change.like == one.like or change.like.startswith((FIRST, LAST))
        return structs.replace(one, count=one.count + change.count) if added else None
    if isinstance(one, RequestAtMost) and isinstance(change, RequestAtMost):
        return RequestAtMost({**one.amounts, **change.amounts})
    if type(one) is not type(change) or _target(one) != _target(change):
        return None
    if isinstance(one, _RAISED) and isinstance(change, _RAISED):
        return structs.replace(one, amounts=_sum(one.amounts, change.amounts))
    return change if isinstance(change, RaiseWeight | RaiseQueuePriority | LowerMinAvailable | UsePriority) else None


def _divisions(change: Change) -> int:
    """In how many equal portions a change can be made."""
    if isinstance(change, AddNodes):
        return change.count
    return _PORTIONS if isinstance(change, _RAISED) else 1


def _portion(change: Change, number: int) -> Change:
    """So many portions of a change, amounts rounded up as they are written."""
    if isinstance(change, AddNodes):
        return structs.replace(change, count=number)
    assert isinstance(change, _RAISED)
    amounts = {name: _rounded_up(amount * number, amount) for name, amount in change.amounts.items()}
    return structs.replace(change, amounts=amounts)


def _rounded_up(portions: int, whole: int) -> int:
    unit = next((unit for unit in (1 << 30, 1 << 20, 1000) if whole % unit == 0), 1)
    return -(-portions // (_PORTIONS * unit)) * unit


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


@dataclass(slots=True)
class Composition:
    """Looks for such changes for one job.

    Attributes:
        trials: what asks.
        key: the job.
        first: what would bring it before those that wait, more and more of it; the first is nothing.
        pods: of its gang.
        refuted: single changes after which it would wait.
        alone: what would keep it waiting if no other job did; None: nothing that is known.
        cut: the time ended before all was tried.
    """

    trials: Trials
    key: str
    first: Sequence[Parts]
    pods: int = 1
    refuted: list[Change] = field(default_factory=list)
    alone: Draft | None = None
    cut: bool = False
    _seen: set[Any] = field(default_factory=set)
    _found: list[Parts] = field(default_factory=list)

    def find(self, draft: Draft, most: int) -> list[Change]:
        """At most so many ways, those of which nothing can be left out; ``draft``: why it waits."""
        changes: list[Change] = []
        for parts in self._ways(draft):
            whole = self._in_line(parts)
            change = together(whole) if whole else None
            if change is not None and not any(_same(change, one) for one in changes):
                changes.append(change)
            if len(changes) >= most or self.cut:
                break
        return changes

    def _ways(self, draft: Draft) -> Iterator[Parts]:
        """Ways to start the job if no other one waited; one of no changes where only others keep it."""
        alone = True if self._late() else self.trials.ask(self.key, Together(()), alone=True)
        if alone is None:
            yield ()
            return
        self.alone = None if alone is True else alone
        yield from self._alone((), self.alone or draft)

    def _alone(self, parts: Parts, draft: Draft) -> Iterator[Parts]:
        """Ways to start the job if no other one waited, with these changes made already."""
        deeper: list[tuple[Parts, Draft]] = []
        here = _mark(draft)
        for ladder in _larger_first(draft.ladders):
            for change in ladder:
                extended = self._beside(parts, change)
                if extended is None or self._late():
                    continue
                if isinstance(change, LowerMinAvailable) and parts:  # the rest of the job would still wait
                    continue
                answer = self.trials.ask(self.key, together(extended), alone=True)
                if answer is None:
                    least = self._least(extended)
                    if least not in self._found:
                        self._found.append(least)
                        yield least
                    break
                self.refuted += [change] if not parts else []
                if answer is True or isinstance(change, LowerMinAvailable) or (mark := _mark(answer)) == here:
                    continue
                if mark not in self._seen and len(extended) < _MOST_PARTS:
                    self._seen.add(mark)
                    deeper.append((extended, answer))
                break
        for extended, answer in deeper:
            yield from self._alone(extended, answer)

    def _beside(self, parts: Parts, change: Change) -> Parts | None:
        """`beside`; None as well where that is more nodes than anybody would add for this job."""
        combined = beside(parts, change)
        nodes = sum(one.count for one in combined or () if isinstance(one, AddNodes))
        return combined if nodes <= max(_FEW_NODES, 2 * self.pods) else None

    def _least(self, parts: Parts) -> Parts:
        """Without what is not needed."""
        for one in parts[:-1]:
            rest = tuple(each for each in parts if each is not one)
            if len(parts) > 1 and not self._late() and self.trials.ask(self.key, together(rest), alone=True) is None:
                parts = rest
        return parts

    def _in_line(self, parts: Parts) -> Parts | None:
        """The same with all others that wait: before them, and with more of it where others take it.

        A change after which the job waits for the same as before is taken back where there is another one.
        """
        answer, vain, taken = self._asked(parts), set[Any](), parts
        times = Counter[Any]()
        for _ in range(_MOST_ROUNDS):
            if answer is None:
                enough = self._needed(self._unhurried(parts))
                least = self._tightened(enough)
                answer = self._again(least) if len(least) > 1 else None
                if answer is None:
                    return least
                answer = self._again(enough) if least != enough else answer
                if answer is None:
                    return enough
            if answer is True or self._late():
                break
            ladders = [ladder for ladder in filter(None, answer.ladders) if not isinstance(ladder[0], _OF_THE_JOB)]
            others = [ladder for ladder in ladders if _target(ladder[0]) not in vain]
            steps = [(_larger(ladder, times), ladder in others) for ladder in (*others, *ladders)]
            bases = (parts if known and not times[_target(step)] else taken for step, known in steps)
            attempts = ((self._beside(base, step), step) for base, (step, _) in zip(bases, steps, strict=True))
            next_step = next(
                ((one, step) for one, step in attempts if one is not None and len(one) <= _MOST_PARTS), None
            )
            if next_step is None:
                break
            taken, step = next_step
            times[_target(step)] += 1
            after = self._asked(taken)
            if after is True:  # such as what the API refuses
                vain.add(_target(step))
                taken = parts
            elif after is not None and _mark(after) == _mark(answer):
                if times[_target(step)] >= _MOST_OF_ONE or not isinstance(step, _RAISED):
                    vain.add(_target(step))
            else:
                parts, vain, answer = taken, set(), after
        return None

    def _again(self, parts: Parts) -> Draft | Literal[True] | None:
        """What keeps it where its pods and nodes come late: others take what one part brings before the next one."""
        return self.trials.ask_again(self.key, together(parts))

    def _needed(self, parts: Parts) -> Parts:
        """Without each part that the job starts without among all that wait, those first that take most to have."""
        for one in sorted(parts, key=lambda part: (not isinstance(part, AddNodes), not isinstance(part, _OF_THE_LINE))):
            rest = tuple(each for each in parts if each is not one)
            if rest and self.trials.at_the_end(self.key) and self._starts(rest):
                parts = rest
        return parts

    def _starts(self, parts: Parts) -> bool:
        """Whether the job starts with these among all that wait, whether its pods come at once or late."""
        whole = together(parts)
        return self.trials.ask(self.key, whole, alone=False) is None and self._again(parts) is None

    def _tightened(self, parts: Parts) -> Parts:
        """As little of each part as is enough with all that wait, nodes first; steps grow fast and go too far."""
        for one in sorted(parts, key=lambda part: not isinstance(part, AddNodes)):
            at, low, high = parts.index(one), 0, _divisions(one)
            while high - low > 1:
                middle = (low + high) // 2
                less = (*parts[:at], _portion(one, middle), *parts[at + 1 :])
                if less != parts and not self._is_enough(less):
                    low = middle
                else:
                    parts, high = less, middle
        return parts

    def _is_enough(self, parts: Parts) -> bool:
        """Whether the job starts with all that wait; not asked when the time is over."""
        return self.trials.at_leisure(self.key) and self.trials.ask(self.key, together(parts), alone=False) is None

    def _asked(self, parts: Parts) -> Draft | Literal[True] | None:
        answer = self.trials.ask(self.key, together((*parts, *self.first[-1])), alone=False)
        self.refuted += parts if answer is not None and len(parts) == 1 else ()
        return answer

    def _unhurried(self, parts: Parts) -> Parts:
        """With no more than is enough of what brings it forward."""
        enough = (ahead for ahead in self.first[:-1] if parts + ahead and self._is_enough((*parts, *ahead)))
        return (*parts, *next(enough, self.first[-1]))

    def _late(self) -> bool:
        self.cut = self.cut or not self.trials.possible(self.key)
        return self.cut


def _same(change: Change, other: Change) -> bool:
    """Whether two changes are the same, in whatever order they are made."""
    return Counter(map(repr, parts_of(change))) == Counter(map(repr, parts_of(other)))


def _larger_first(ladders: Ladders) -> Ladders:
    """Ladders after which the whole job starts as it was asked for before the others."""
    return sorted(filter(None, ladders), key=lambda ladder: isinstance(ladder[0], _SMALLER))


def _larger(ladder: list[Change], times: Counter[Any]) -> Change:
    """A larger step each time: those before the job take some of it as well."""
    before, first = times[_target(ladder[0])], ladder[0]
    if not isinstance(first, _RAISED):
        return ladder[min(before, len(ladder) - 1)]
    least = {name: amount * _GROWTH**before for name, amount in first.amounts.items()}
    steps = (step for step in ladder if isinstance(step, _RAISED) and step.amounts.keys() == least.keys())
    enough = (step for step in steps if all(step.amounts[name] >= amount for name, amount in least.items()))
    return next(enough, structs.replace(first, amounts=least))


def _target(change: Change) -> Any:
    """Of which kind a change is, and of which object."""
    return type(change).__name__, *(getattr(change, name, "") for name in ("queue", "quota", "nodes"))


def _mark(draft: Draft) -> Any:
    """What a job waits for, without amounts."""
    firsts = [ladder[0] for ladder in draft.ladders if ladder and not isinstance(ladder[0], UsePriority)]
    return draft.verdict.cause, tuple(sorted(draft.verdict.need)), tuple(map(_target, firsts))
