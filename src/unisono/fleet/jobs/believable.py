"""What a hub believes of a status that a member tells (pure): a member may be mistaken, or hostile."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from unisono.api.base import Object
from unisono.api.batch import Job
from unisono.controllers.job import phases
from unisono.controllers.patching import to_json

MOST_BYTES: Final = 256 * 1024
"""Of a status that is taken over."""
_MOST_COUNT: Final = 2**31 - 1
_DEEPEST: Final = 12
_PHASES: Final = frozenset({"", *phases.TRANSITIONS, *phases.KILLING, *phases.STOPPED})


def disbelief(copied: Object) -> str:
    """Why the status of a copy is not taken over; empty where it is."""
    status = to_json(getattr(copied, "status", None))
    size = len(msgspec.json.encode(status))
    if size > MOST_BYTES:
        return f"the status has {size} bytes, and no more than {MOST_BYTES} are taken over"
    if isinstance(copied, Job) and (phase := copied.status.state.phase or "") not in _PHASES:
        return f"{phase[:40]!r} is no phase of a job"
    return _bad_number(status, 0)


def _bad_number(value: Any, depth: int) -> str:
    if depth > _DEEPEST:
        return "the status is nested too deeply"
    if isinstance(value, bool):
        return ""
    if isinstance(value, int) and not 0 <= value <= _MOST_COUNT:
        return f"{str(value)[:20]} is no count"
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, (_bad_number(each, depth + 1) for each in inner)), "")
