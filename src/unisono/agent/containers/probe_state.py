"""Counting the results of a probe. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from unisono.api.core import Probe


@dataclass(slots=True)
class ProbeState:
    """What a probe says so far.

    Attributes:
        passing: its present verdict; liveness starts true, readiness and startup start false.
        failed: it failed for good (liveness and startup only: the container must be ended).
    """

    probe: Probe
    passing: bool
    failed: bool = False
    successes: int = 0
    failures: int = 0

    def record(self, success: bool) -> bool:
        """Count one result; True when the verdict changed."""
        before = (self.passing, self.failed)
        if success:
            self.successes, self.failures = self.successes + 1, 0
            if self.successes >= (self.probe.success_threshold or 1):
                self.passing = True
        else:
            self.successes, self.failures = 0, self.failures + 1
            if self.failures >= (self.probe.failure_threshold or 3):
                self.passing, self.failed = False, True
        return (self.passing, self.failed) != before

    @property
    def period(self) -> float:
        """Seconds between two tries."""
        return float(self.probe.period_seconds or 10)

    @property
    def timeout(self) -> float:
        """Seconds that one try may take."""
        return float(self.probe.timeout_seconds or 1)

    @property
    def initial_delay(self) -> float:
        """Seconds before the first try."""
        return float(self.probe.initial_delay_seconds or 0)
