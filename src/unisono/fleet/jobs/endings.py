"""When jobs that have ended are deleted (pure).

The hub's object has the time to live, and its copies have none: a copy that its member deletes at its end would look
like one that was lost, and be made again.
"""

from __future__ import annotations

from typing import Any, Final

from unisono.api.base import Object
from unisono.api.times import parse_time
from unisono.controllers.patching import to_json

_TTL: Final = "ttlSecondsAfterFinished"
_ENDS: Final = frozenset({"Succeeded", "Failed", "Complete", "Completed"})


def without_ttl(spec: dict[str, Any]) -> dict[str, Any]:
    """A job's spec, as JSON, without a time to live."""
    found = {key: value for key, value in spec.items() if key != _TTL}
    policy = found.get("runPolicy")
    if isinstance(policy, dict):
        found["runPolicy"] = {key: value for key, value in policy.items() if key != _TTL}
    return found


def expires_in(job: Object, now: float) -> float | None:
    """Seconds until a job that conditions tell has ended is to be deleted; None for never.

    Times that a member's clock has written count as past at the latest now.
    """
    value = to_json(job)
    spec, status = value.get("spec") or {}, value.get("status") or {}
    policy = spec.get("runPolicy")
    ttl = spec.get(_TTL, policy.get(_TTL) if isinstance(policy, dict) else None)
    if not isinstance(ttl, int):
        return None
    for condition in status.get("conditions") or ():
        if condition.get("type") in _ENDS and condition.get("status") == "True":
            try:
                ended = parse_time(condition.get("lastTransitionTime") or "")
            except ValueError:
                ended = now
            return max(0.0, min(ended, now) + ttl - now)
    return None
