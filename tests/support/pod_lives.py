"""Random lives of pods, as events and as plain counts."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from support.histories import a_group, a_job, a_pod, owner
from unisono.api.base import Object
from unisono.api.kinds import JOBS


@dataclass(frozen=True)
class Life:
    """One pod: seconds at which it is made, gets its node, ends and is deleted."""

    job: int
    created: int
    waits: int
    runs: int
    lingers: int
    cards: int
    killed: bool

    @property
    def bound(self) -> int:
        return self.created + self.waits

    @property
    def end(self) -> int:
        return self.bound + self.runs

    @property
    def deleted(self) -> int:
        return self.end + (0 if self.killed else self.lingers)


LIVES = st.lists(
    st.builds(
        Life,
        job=st.integers(0, 2),
        created=st.integers(0, 50),
        waits=st.integers(0, 50),
        runs=st.integers(0, 200),
        lingers=st.integers(0, 50),
        cards=st.integers(0, 8),
        killed=st.booleans(),
    ),
    max_size=6,
)


def events_of(lives: list[Life]) -> list[tuple[int, Object, bool]]:
    """All that happens, in its order."""
    found: list[tuple[int, int, Object, bool]] = []
    for job in {life.job for life in lives}:
        mine = [life for life in lives if life.job == job]
        found.append((min(life.created for life in mine), 0, a_job(f"j{job}"), False))
        group = a_group(f"j{job}", parent=owner(JOBS, f"j{job}"))
        found.append((min(life.created for life in mine), 1, group, False))
        found.append((max(life.deleted for life in mine), 9, a_job(f"j{job}", "Completed"), True))
    for number, life in enumerate(lives):
        made = {"job": f"j{life.job}", "gang": f"j{life.job}", "created": life.created}
        made["resources"] = {"cpu": 1, "gpu": life.cards}
        name = f"p{number}"
        last = {} if life.killed else {"phase": "Succeeded", "ended": life.end}
        found.append((life.created, 2, a_pod(name, node="", phase="Pending", bound=None, **made), False))  # type: ignore[arg-type]
        found.append((life.bound, 3, a_pod(name, bound=life.bound, **made), False))  # type: ignore[arg-type]
        if not life.killed:
            found.append((life.end, 4, a_pod(name, bound=life.bound, **last, **made), False))  # type: ignore[arg-type]
        found.append((life.deleted, 5, a_pod(name, bound=life.bound, **last, **made), True))  # type: ignore[arg-type]
    return [(at, obj, gone) for at, _, obj, gone in sorted(found, key=lambda each: each[:2])]


def counted(lives: list[Life], low: int, high: int) -> int:
    """Second by second, without any interval."""
    return sum(
        life.cards * 1000 * 1000 for life in lives for second in range(low, high) if life.bound <= second < life.end
    )
