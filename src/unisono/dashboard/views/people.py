"""Jobs by their people: the viewer's own ones first, and who holds most (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from unisono.dashboard.views.wire import IdleLine, JobRow, UserLine

# Rows of each list; the table of jobs has the others.
_MOST_MINE, _MOST_USERS, _MOST_HOLDERS = 8, 10, 6
# A job that failed is shown among one's own for so long after its end.
_NEWS_SECONDS = 24 * 3600.0
# What has done nothing for so long is said to be idle: programs read their data first.
IDLE_SECONDS = 300.0
_ORDER = {"waiting": 0, "failed": 1, "running": 2, "suspended": 3, "succeeded": 4}


def own_jobs(rows: Iterable[JobRow], user: str) -> list[JobRow]:
    """All jobs of one user."""
    return [row for row in rows if user and row.user == user]


def news(rows: Iterable[JobRow], now: float) -> list[JobRow]:
    """Those of one's own jobs that matter most: which wait, have failed lately, run, and have just been done.

    What waits longest, and what began or ended last, comes first. Each state has a place before one has two.
    """
    found: dict[str, list[JobRow]] = defaultdict(list)
    for row in rows:
        if not row.ended or now - row.ended <= _NEWS_SECONDS:
            found[row.state].append(row)
    for state, members in found.items():
        members.sort(key=lambda row: (row.created if state == "waiting" else -max(row.ended, row.started), row.key))
    chosen: list[JobRow] = []
    while len(chosen) < _MOST_MINE and any(found.values()):
        for state in sorted(found, key=lambda each: _ORDER.get(each, 9)):
            if found[state] and len(chosen) < _MOST_MINE:
                chosen.append(found[state].pop(0))
    place = {row.key: number for number, row in enumerate(chosen)}
    return sorted(chosen, key=lambda row: (_ORDER.get(row.state, 9), place[row.key]))


def user_lines(rows: Iterable[JobRow]) -> list[UserLine]:
    """Who holds most, and what they wait for; jobs of no known user are one line."""
    lines: dict[str, UserLine] = {}
    for row in rows:
        line = lines.setdefault(row.user, UserLine(user=row.user))
        line.held += row.held
        line.held_cpus += row.held_cpus
        if row.state == "waiting":
            line.waiting += 1
            line.wanted += max(0.0, row.cards - row.held)
        elif row.state == "running":
            line.running += 1
    found = [line for line in lines.values() if line.running or line.waiting or line.held or line.held_cpus]
    cards, cpus = sum(line.held for line in found), sum(line.held_cpus for line in found)
    for line in found:
        held, of = (line.held, cards) if cards else (line.held_cpus, cpus)
        line.share = round(held / of, 4) if of else 0.0
    return sorted(found, key=lambda line: (-line.held, -line.held_cpus, -line.wanted, line.user))[:_MOST_USERS]


def holders(rows: Iterable[JobRow]) -> Sequence[JobRow]:
    """The jobs that hold most, cards before CPUs."""
    found = [row for row in rows if row.held or row.held_cpus]
    return sorted(found, key=lambda row: (-row.held, -row.held_cpus, row.key))[:_MOST_HOLDERS]


def idle_lines(rows: Iterable[JobRow], quiet: Mapping[str, float], now: float) -> list[IdleLine]:
    """Jobs that hold cards and let them lie idle, the one that wastes most first.

    Args:
        rows: of the jobs.
        quiet: since when jobs have done nothing, by ``namespace/name``.
        now: seconds since 1970.

    """
    found = []
    for row in rows:
        since = quiet.get(f"{row.namespace}/{row.name}")
        if since is not None and row.held and now - since >= IDLE_SECONDS:
            found.append(IdleLine(row=row, since=since))
    return sorted(found, key=lambda line: (-line.row.held * (now - line.since), line.row.key))[:_MOST_USERS]
