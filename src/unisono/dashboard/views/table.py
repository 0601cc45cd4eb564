"""Filters, sorts and cuts tables on the server, so that the page holds what it shows (pure)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from unisono.api.resources import is_bytes
from unisono.dashboard.views.why import Choice
from unisono.dashboard.views.wire import JobRow, JobsView
from unisono.history.records import is_gpu

# Amounts of resources in units that people use: ``8 GPUs, 96 CPUs, 384 GiB`` (pure).

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_CPU = "cpu"
# Longer ones are no numbers that people count by.
_NUMBERS = re.compile(r"(\d{1,18})")
_LAST = ("memory", "ephemeral-storage", "pods")


def quantity(name: str, amount: int) -> str:
    """An amount in engine units without its resource's name: ``1,624``, ``6.34 TiB``, ``0.5``."""
    if is_bytes(name):
        return _bytes(amount)
    if name == "pods":
        return f"{amount:,}"
    value = amount / 1000
    digits = 0 if amount % 1000 == 0 else 1 if abs(value) >= 10 else 3
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _bytes(amount: int) -> str:
    value, step = float(amount), 0
    # 1023.9 GiB would be told as 1,024 GiB.
    while abs(value) >= 999.5 and step < len(_BINARY) - 1:
        value, step = value / 1024, step + 1
    digits = max(0, 2 - len(str(int(abs(value))).lstrip("0"))) if step else 0
    text = f"{value:.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text} {_BINARY[step]}"


def amount_text(name: str, amount: int) -> str:
    """One amount with its unit: ``8 GPUs``, ``96 CPUs``, ``384 GiB``, ``amd.com/nic 2``."""
    text = quantity(name, amount)
    if name == _CPU:
        return f"{text} CPU" if amount == 1000 else f"{text} CPUs"
    if name == "memory":
        return text
    if name.endswith("/gpu") and is_gpu(name):
        return f"{text} GPU" if amount == 1000 else f"{text} GPUs"
    if name == "pods":
        return f"{text} pod" if amount == 1 else f"{text} pods"
    return f"{text} {name}"


def amounts_text(amounts: Mapping[str, int]) -> str:
    """All amounts that are not 0, devices first: ``8 GPUs, 96 CPUs, 384 GiB``."""
    named = sorted((name for name, amount in amounts.items() if amount), key=_place)
    return ", ".join(amount_text(name, amounts[name]) for name in named)


def ordered(names: Mapping[str, object]) -> list[str]:
    """Names of resources as tables list them: cards, CPU, memory, the rest."""
    return sorted(names, key=_place)


def _place(name: str) -> tuple[int, str]:
    if is_gpu(name):
        # What jobs ask for by the card before what only nodes have, such as a number of cards that are shared.
        return 0 if name.endswith("/gpu") else 1, name
    if name == _CPU:
        return 2, name
    return (4 + _LAST.index(name), name) if name in _LAST else (3, name)


def natural(text: str) -> list[tuple[int, str]]:
    """Sorts ``node-2`` before ``node-10``."""
    return [(int(each), "") if each.isascii() and each.isdigit() else (-1, each) for each in _NUMBERS.split(text)]


T = TypeVar("T")

ME = "me"
"""In place of a user: the viewer."""
MOST_ROWS = 500
"""Rows of one window."""
# Values of one filter that are offered.
_MOST_CHOICES = 200
_ENDED = ("succeeded", "failed")


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a table shows; it stands in the page's address.

    Attributes:
        q: words, each of which must be in a row.
        state: of the jobs; ``live`` is every one that has not ended, an empty text all.
        queue, namespace, kind, cause, user: only these; empty for all. The user may be ``me``.
        sort: a column; a minus before it for the other direction.
        offset, limit: the window.
    """

    q: str = ""
    state: str = ""
    queue: str = ""
    namespace: str = ""
    kind: str = ""
    cause: str = ""
    user: str = ""
    sort: str = "state"
    offset: int = 0
    limit: int = 100


_STATES = {"waiting": 0, "running": 1, "suspended": 2, "failed": 3, "succeeded": 4}
_SORTS: dict[str, Callable[[JobRow], Any]] = {
    # Those that wait longest come first, then the youngest that run or have ended.
    "state": lambda row: (_STATES.get(row.state, 9), row.created if row.state == "waiting" else -row.created),
    "name": lambda row: (row.name, row.namespace, row.kind),
    "namespace": lambda row: (row.namespace, row.name),
    "kind": lambda row: (row.kind, row.name),
    "queue": lambda row: (row.queue, row.created),
    "priority": lambda row: (row.priority, row.created),
    "gang": lambda row: row.gang,
    "pods": lambda row: row.pods,
    "cards": lambda row: row.cards,
    "user": lambda row: (row.user or "~", row.created),
    "created": lambda row: -row.created,
    "cause": lambda row: (row.cause or "~", row.created),
}


class Filters(NamedTuple):
    """What there is to filter by, of all rows."""

    states: list[Choice]
    queues: list[Choice]
    namespaces: list[Choice]
    kinds: list[Choice]
    causes: list[Choice]
    users: list[Choice]


def filters_of(rows: Collection[JobRow]) -> Filters:
    """The choices of each filter."""
    return Filters(
        choices(row.state for row in rows),
        choices(row.queue for row in rows),
        choices(row.namespace for row in rows),
        choices(row.kind for row in rows),
        choices(row.cause for row in rows),
        choices(row.user for row in rows),
    )


def jobs_view(
    rows: Collection[JobRow], query: Query, filters: Filters | None = None, *, ready: bool = True
) -> JobsView:
    """The window of the table that a query asks for; an unknown column sorts by state.

    Args:
        rows: all of them.
        query: what is asked for.
        filters: of these rows, where they are known.
        ready: everything was listed once.
    """
    there = filters or filters_of(rows)
    matches = [row for row in rows if _fits(row, query)]
    sort = query.sort.removeprefix("-")
    matches.sort(key=lambda row: row.key)  # equal ones keep one order
    matches.sort(key=_SORTS.get(sort, _SORTS["state"]), reverse=query.sort.startswith("-"))
    if name := query.q.strip().lower():
        # Who types a whole name wants that job, and not the hundred others whose names begin with it.
        matches.sort(key=lambda row: name not in (row.name.lower(), f"{row.namespace}/{row.name}".lower()))
    offset, window = windowed(matches, query.offset, query.limit)
    return JobsView(
        ready=ready,
        total=len(rows),
        matched=len(matches),
        offset=offset,
        order=[row.key for row in window],
        rows={row.key: row for row in window},
        states=there.states,
        queues=there.queues,
        namespaces=there.namespaces,
        kinds=there.kinds,
        causes=there.causes,
        users=there.users,
    )


def windowed(found: Sequence[T], offset: int, limit: int) -> tuple[int, Sequence[T]]:
    """A window that lies within what was found: its first number, and what is in it."""
    limit = min(max(limit, 1), MOST_ROWS)
    offset = min(max(offset, 0), max(len(found) - limit, 0))
    return offset, found[offset : offset + limit]


def choices(values: Iterable[str]) -> list[Choice]:
    """What there is to filter by, the most frequent first."""
    counts = Counter(value for value in values if value)
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return [Choice(value=value, count=count) for value, count in ordered[:_MOST_CHOICES]]


def counted(counts: Mapping[str, int]) -> list[Choice]:
    """Counts as choices, the largest first."""
    return [Choice(value=name, count=count) for name, count in sorted(counts.items(), key=lambda each: -each[1])]


def _fits(row: JobRow, query: Query) -> bool:
    if query.state == "live":
        if row.state in _ENDED:
            return False
    elif query.state and row.state != query.state:
        return False
    for requested, value in (
        (query.queue, row.queue),
        (query.namespace, row.namespace),
        (query.kind, row.kind),
        (query.cause, row.cause),
        (query.user, row.user),
    ):
        if requested and value != requested:
            return False
    if not query.q:
        return True
    text = (
        f"{row.namespace}/{row.name} {row.kind} {row.queue} {row.phase} {row.priority} {row.user} {row.waiting}".lower()
    )
    return all(word in text for word in query.q.lower().split())
