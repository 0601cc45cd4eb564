"""How strained the API server is, told from how long it takes to answer writes."""

from __future__ import annotations

# A server that has time to spare answers well within this; what it takes on a loaded machine is a multiple.
_CALM_SECONDS = 0.05
_MOST = 4.0
# Weight of the newest answer: some twenty answers make a new opinion.
_WEIGHT = 0.1


class Strain:
    """A running mean of the time that writes take.

    Who may write later writes less where the server is slow: intervals are multiplied by ``stretch``, so that what only
    counts does not stand in the way of pods and binds.
    """

    def __init__(self) -> None:
        self._mean = 0.0

    def note(self, seconds: float) -> None:
        """A write was answered after so many seconds."""
        self._mean += _WEIGHT * (seconds - self._mean)

    @property
    def stretch(self) -> float:
        """Factor from 1 (calm) to 4."""
        return min(_MOST, max(1.0, self._mean / _CALM_SECONDS))
