"""A verdict before advice: its cause is found, what would help has not been tried."""

from __future__ import annotations

from msgspec import Struct

from unisono.engine.changes import Change
from unisono.engine.verdict import Verdict

Ladders = list[list[Change]]
"""Changes that might help; of each ladder the first step that works is taken."""


class Draft(Struct):
    """A verdict without advice.

    Attributes:
        verdict: everything else; a suggestion that is there already stays.
        ladders: changes that might help, cheapest ladder first.
        untried: changes that cannot be tried, said where none is known to help.
        necessary: the first step has to be done in any case: it is said even where it is not enough.
        first, last: advice in words only, said before and after.
        fallback: advice in words only, said where no change is known to help.
        evictions: whether others could make room.
    """

    verdict: Verdict
    ladders: Ladders = []
    first: str = ""
    last: str = ""
    fallback: str = ""
    evictions: bool = False
    untried: tuple[Change, ...] = ()
    necessary: bool = False
