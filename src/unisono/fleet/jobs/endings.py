"""When jobs that have ended are deleted (pure).

The hub's object has the time to live, and its copies have none: a copy that its member deletes at its end would look
like one that was lost, and be made again.
"""

from __future__ import annotations

from typing import Any, Final

from unisono.api.base import Object
from unisono.api.times import time_or

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
    spec: Any = getattr(job, "spec", None)
    spec = getattr(spec, "run_policy", None) or spec  # kinds of Kubeflow have it there
    ttl: int | None = getattr(spec, "ttl_seconds_after_finished", None)
    if ttl is None:
        return None
    for condition in getattr(getattr(job, "status", None), "conditions", None) or ():
        if condition.type in _ENDS and condition.status == "True":
            ended = time_or(condition.last_transition_time, now)
            return max(0.0, min(ended, now) + ttl - now)
    return None
