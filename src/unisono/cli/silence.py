"""Which processes of jobs that are followed have written nothing for long: a rank that hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from unisono.sdk.first_failure import process_name
from unisono.sdk.running_state import duration, silent

if TYPE_CHECKING:
    from unisono.sdk.events import Target
    from unisono.sdk.observing import Observation

# At the end of a wait even a short silence tells which process was waited for.
_LATELY_SECONDS = 5.0
_MOST = 4


class Silence:
    """When each process wrote its last line, or was first seen to run.

    Args:
        clock: seconds, for tests.

    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[tuple[str, str], float] = {}

    def wrote(self, namespace: str, pod: str) -> None:
        """A line of the pod was read."""
        self._last[namespace, pod] = self._clock()

    def notes(self, found: Mapping[Target, Observation]) -> dict[str, str]:
        """Processes that are silent for long, or for longer than the others of their job, by pod."""
        return {
            note.about.removeprefix("pod/"): f"{process_name(note.about.removeprefix('pod/'), target.name)} {note.text}"
            for target, seen in found.items()
            for note in silent(self._running(seen), self._clock())
        }

    def lately(self, found: Mapping[Target, Observation]) -> list[str]:
        """What is worth knowing when a wait for the jobs ends: who wrote nothing for how long, the longest first."""
        now, told = self._clock(), []
        for target, seen in found.items():
            running = sorted(self._running(seen), key=lambda each: each[1])
            quiet = [(pod, now - when) for pod, when in running if now - when >= _LATELY_SECONDS]
            parts = [f"{process_name(pod, target.name)} for {duration(seconds)}" for pod, seconds in quiet[:_MOST]]
            if parts:
                more = f" and {len(quiet) - _MOST} more" if len(quiet) > _MOST else ""
                told.append(f"{seen.view.title}: nothing was written by {', '.join(parts)}{more}")
        return told

    def _running(self, seen: Observation) -> list[tuple[str, float]]:
        now = self._clock()
        running = [pod.metadata for pod in seen.pods if pod.status.phase == "Running"]
        metas = [meta for meta in running if not meta.deletion_timestamp]
        return [(meta.name, self._last.setdefault((meta.namespace or "", meta.name), now)) for meta in metas]
