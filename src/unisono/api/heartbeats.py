"""What a scheduler's heartbeat says: the Lease that it renews as long as its cycles end (pure)."""

from __future__ import annotations

from unisono.api.core import Lease
from unisono.api.times import time_or

DURATION_SECONDS = 30.0


def renewed_at(lease: Lease) -> float:
    """When the Lease was renewed, in seconds since the epoch; 0 where it does not say."""
    return time_or(lease.spec.renew_time)


def silence(lease: Lease, now: float) -> str:
    """Why the scheduler that renews the Lease schedules nothing at ``now``; empty where it is alive."""
    age = max(0.0, now - renewed_at(lease))
    if not lease.spec.holder_identity:
        return f"no scheduler is running: the last one ended {age:.0f} s ago"
    if age > float(lease.spec.lease_duration_seconds or DURATION_SECONDS):
        return f"no running scheduler answers: no cycle has ended for {age:.0f} s"
    return ""
