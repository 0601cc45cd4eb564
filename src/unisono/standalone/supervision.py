"""Keeps a part of the control plane running: a failure is logged and the part restarts after a pause."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from unisono.errors import UnisonoError
from unisono.kube.backoff import Backoff
from unisono.kube.clock import Clock
from unisono.kube.leader import LeadershipLost

_log = structlog.get_logger(__name__)

HEALTHY_SECONDS = 60.0


class PartEnded(UnisonoError):
    """A part is gone for a reason that its message tells in full: a traceback would lead nowhere."""


async def keep_running(
    name: str, part: Callable[[], Awaitable[None]], clock: Clock, backoff: Backoff, stopping: Callable[[], bool]
) -> None:
    """Run ``part`` again and again until cancelled, or until it ends while ``stopping`` answers True.

    Args:
        name: of the part, for the log.
        part: makes and runs it; called for each start, so that nothing of a failed one is left.
        clock: paces the pauses.
        backoff: the pauses; they become short again after the part has run well for a minute.
        stopping: whether an end is wanted now.
    """
    failures = 0
    while True:
        started = clock.monotonic()
        try:
            await part()
            if stopping():
                return
            reason = "it ended by itself"
        except (PartEnded, LeadershipLost) as error:
            reason = str(error)
        except Exception as error:
            _log.exception("part.failed", part=name)
            reason = str(error)
        failures = 1 if clock.monotonic() - started > HEALTHY_SECONDS else failures + 1
        pause = backoff.delay(failures)
        _log.warning("part.restarts", part=name, reason=reason, seconds=round(pause, 2))
        await clock.sleep(pause)
