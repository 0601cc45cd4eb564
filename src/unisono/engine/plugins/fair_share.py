"""fair-share: users or namespaces take turns within a queue by what they hold and have used, which decays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from unisono.api.annotations import SHARE_WEIGHTS, USE
from unisono.api.times import duration_or_none, parse_time, rfc3339
from unisono.cluster.interning import Memory
from unisono.engine.answers import Key
from unisono.engine.config.arguments import Argument, Shape, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.common.annotations import KINDS, USERS, account_of, numbers_of
from unisono.engine.session.limit import aligned, dominant_share, listed, share_asked_for
from unisono.errors import ConfigError

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session

# What accounts have used, with a half-life, kept from cycle to cycle.
#
# An account that holds the dominant share ``h`` of the cluster uses ``h`` seconds of the whole cluster in a second. Use
# counts half after each half-life ``H``. So with ``k = H / ln 2`` the sum of an account that holds ``h`` all the time
# comes to ``h k``, and its *average* ``sum / k`` to ``h``: history and present are measured in the same unit. (Slurm's
# multifactor priority decays use in the same way.)

Line = tuple[str, str]
"""A queue and an account."""

MOST_KEPT = 500
"""Accounts of one queue that are kept: an annotation has a limited size."""
_LEAST_WRITTEN = 0.001
_FORGOTTEN = 1e-9
"""An average below this is none."""


@dataclass(slots=True)
class Use:
    """Cluster-seconds of one account in one queue as of ``at`` (seconds since the epoch), and what it held then."""

    seconds: float = 0.0
    held: float = 0.0
    at: float = 0.0

    def upto(self, now: float, scale: float) -> float:
        """The decayed sum at ``now``; ``scale`` is the half-life over ln 2, and time never goes back."""
        left: float = 2.0 ** (-max(now - self.at, 0.0) / (scale * log(2.0)))
        return self.seconds * left + self.held * scale * (1.0 - left)


class UsageBook(Memory):
    """Decayed use by queue and account."""

    def __init__(self) -> None:
        self._uses: dict[Line, Use] = {}
        self._scale = 1.0

    def look(self, held: Mapping[Line, float], now: float, half_life: float) -> None:
        """Note who holds what from ``now`` on."""
        scale = self._scale = half_life / log(2.0)
        uses: dict[Line, Use] = {}
        for line in {**self._uses, **held}:
            use = self._uses.get(line)
            seconds = use.upto(now, scale) if use is not None else 0.0
            share = held.get(line, 0.0)
            if share or seconds / scale > _FORGOTTEN:
                uses[line] = Use(seconds, share, max(now, use.at) if use is not None else now)
        self._uses = uses

    def averages(self, half_life: float) -> dict[Line, float]:
        """By line the average share over the half-life, as of the last look."""
        scale = half_life / log(2.0)
        return {line: use.seconds / scale for line, use in self._uses.items()}

    def kept(self, now: float) -> dict[str, dict[str, Use]]:
        """Use as of ``now`` by queue and account, to be kept somewhere: the most first, `MOST_KEPT` of a queue at most.

        What is held counts up to now: while nothing changes there may have been no look for long.
        """
        by_queue: dict[str, dict[str, Use]] = {}
        uses = {line: Use(use.upto(now, self._scale), use.held, max(now, use.at)) for line, use in self._uses.items()}
        for (queue, account), use in sorted(uses.items(), key=lambda item: (-item[1].seconds, item[0])):
            of_queue = by_queue.setdefault(queue, {})
            if len(of_queue) < MOST_KEPT:
                of_queue[account] = use
        return by_queue

    def restore(self, entries: Iterable[tuple[str, str, float, float]]) -> None:
        """Go on from what an earlier scheduler has kept: queue, account, cluster-seconds and when that was."""
        for queue, account, seconds, at in entries:
            if (queue, account) not in self._uses and seconds >= 0.0:
                self._uses[queue, account] = Use(seconds, 0.0, at)


def written(uses: Mapping[str, Use]) -> str:
    """What a queue's accounts have used, as JSON for an annotation: one moment for all of them."""
    at = max((use.at for use in uses.values()), default=0.0)
    amounts = {name: round(use.seconds, 3) for name, use in uses.items() if use.seconds >= _LEAST_WRITTEN}
    return msgspec.json.encode({"at": rfc3339(at), "use": amounts}, order="sorted").decode()


def read(queue: str, text: str) -> list[tuple[str, str, float, float]]:
    """Entries for `UsageBook.restore`; none where the text is not what `written` writes."""
    try:
        decoded = msgspec.json.decode(text, type=_Written)
        at = parse_time(decoded.at)
    except (msgspec.DecodeError, UnicodeError, ValueError):
        return []
    amounts = [(name, seconds) for name, seconds in decoded.use.items() if 0.0 <= seconds < float("inf")]
    return [(queue, name, seconds, at) for name, seconds in amounts[:MOST_KEPT]]


class _Written(msgspec.Struct):
    at: str
    use: dict[str, float]


# fair-share: users or namespaces take turns within a queue, by what they hold and what they have used lately.
#
# A job's turn is (average use of its account + what the account holds + what its jobs before this one ask for) over the
# account's weight, all as dominant shares of the cluster (start-time fair queueing, Goyal, Vin and Cheng, 1996). Use
# decays with a half-life, see `unisono.engine.plugins.fair_share`: an account that had the cluster alone comes
# last until its use has faded or others have used as much.

_NUMBERS = Shape("map", each=Shape("float", right=lambda value: 0 < value < float("inf"), form="a number above 0"))
_BY = Argument("fair-share.by", "text", USERS, "user: who submitted a job; namespace: where it is")
_HALF_LIFE = Argument("fair-share.halfLife", "duration", "168h", "after it use counts half; 0s: only what is held")
_WEIGHTS = Argument("fair-share.weights", "map", None, "accounts with another weight than 1, by name", shape=_NUMBERS)


class FairSharePlugin(Plugin):
    """Orders the jobs of a queue by the turn of their account."""

    name = "fair-share"
    remembers = True
    known_arguments = (_BY, _HALF_LIFE, _WEIGHTS)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.by = str(argument_value(_BY, self.arguments))
        if self.by not in KINDS:
            raise ConfigError(f"{_BY.key} must be {' or '.join(KINDS)}, not {self.by}")
        self.half_life = duration_or_none(str(argument_value(_HALF_LIFE, self.arguments))) or 0.0
        self.weights: dict[str, float] = {}
        for name, value in (argument_value(_WEIGHTS, self.arguments) or {}).items():
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < float("inf"):
                raise ConfigError(f"{_WEIGHTS.key}: the weight of {name} must be a number above 0, not {value!r}")
            self.weights[str(name)] = float(value)

    def open(self, session: Session) -> None:
        """Note who holds what from now on."""
        self.session = session
        self.total = listed(session.sharable_total, session.registry)
        self._by_queue: dict[str, dict[str, float]] = {}
        self._averages: dict[Line, float] = {}
        if self.half_life > 0:
            book = session.snapshot.memo.of(UsageBook, self._remembered)
            book.look(self._held, session.now, self.half_life)
            self._averages = book.averages(self.half_life)

    def _remembered(self) -> UsageBook:
        """A new scheduler goes on from what the last one wrote on the queues."""
        book = UsageBook()
        for name, queue in self.session.snapshot.queues.items():
            book.restore(read(name, queue.annotations.get(USE, "")))
        return book

    def job_key(self, job: JobState) -> Key:
        """The turn as of the beginning of the cycle."""
        turn = self._turns.get(job.key)
        return (self._value(self._line(job)) if turn is None else turn,)

    def weight(self, line: Line) -> float:
        """Of an account in a queue: what the Queue says, else what the configuration says, else 1."""
        queue, account = line
        if queue not in self._by_queue:
            state = self.session.queues.get(queue)
            self._by_queue[queue] = numbers_of(state.record.annotations, SHARE_WEIGHTS) if state is not None else {}
        return self._by_queue[queue].get(account) or self.weights.get(account, 1.0)

    def _line(self, job: JobState) -> Line:
        return job.queue.name, account_of(job, self.by)

    def _value(self, line: Line) -> float:
        return (self._averages.get(line, 0.0) + self._held.get(line, 0.0)) / self.weight(line)

    @cached_property
    def _held(self) -> dict[Line, float]:
        """The dominant share of what each account holds in a queue."""
        registry = self.session.registry
        sums: dict[Line, np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = defaultdict(registry.zeros)
        for record in self.session.snapshot.jobs.values():
            sums[record.queue, account_of(record, self.by)] += aligned(record.allocated, registry)
        shares = {line: dominant_share(held.tolist(), self.total) for line, held in sums.items()}
        return {line: share for line, share in shares.items() if share}

    @cached_property
    def _turns(self) -> dict[str, float]:
        """The turn of each job that waits, by key; within an account by priority, then age."""
        ahead, turns = dict[Line, float](), dict[str, float]()
        for job in sorted(self.session.active, key=lambda job: (-job.priority, job.created, job.key)):
            line = self._line(job)
            turns[job.key] = ahead[line] if line in ahead else self._value(line)
            asked = share_asked_for(job.record, self.session.registry, self.total)
            ahead[line] = turns[job.key] + asked / self.weight(line)
        return turns
