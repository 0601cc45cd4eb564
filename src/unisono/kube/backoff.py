"""How long to wait before the next try."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

_MAX_DOUBLINGS = 62

JITTER = random.Random()  # noqa: S311  # nosec B311 # no secret
"""Source of all delays that have none of their own; a simulation seeds it."""


@dataclass(slots=True)
class Backoff:
    """Exponential delays with full jitter over the upper half.

    Attributes:
        base: seconds before the first retry.
        cap: longest delay in seconds.
        jitter: share of the delay that is random, 0 to 1; spreads clients that failed together.
        rng: source of the jitter.

    """

    base: float = 0.01
    cap: float = 60.0
    jitter: float = 0.5
    rng: random.Random = field(default_factory=lambda: JITTER)

    def delay(self, failures: int) -> float:
        """Seconds to wait after ``failures`` failures in a row (1 or more)."""
        full = min(self.cap, self.base * float(1 << min(max(failures - 1, 0), _MAX_DOUBLINGS)))
        return full * (1.0 - self.jitter * self.rng.random())
