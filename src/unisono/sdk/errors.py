"""Errors of the SDK; all others are those of the API server (``unisono.errors``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.errors import UnisonoError

if TYPE_CHECKING:
    from unisono.sdk.state.views import JobView


class BadWork(UnisonoError):
    """What was given is no job that can be submitted."""


class NoControlPlane(UnisonoError):
    """The control plane that was named does not exist, or a private one could not be started."""


class WaitTimeout(UnisonoError, TimeoutError):
    """A job did not end, or did not reach a phase, in time; ``view`` is how it was last seen."""

    def __init__(self, message: str, view: JobView | None = None) -> None:
        super().__init__(message)
        self.view = view


class JobFailed(UnisonoError):
    """A job ended without success; ``view`` is its last state."""

    def __init__(self, message: str, view: JobView) -> None:
        super().__init__(message)
        self.view = view


class RemoteError(UnisonoError):
    """A function raised in a pod.

    Attributes:
        rank: number of the worker.
        traceback: the traceback as the worker saw it.
    """

    def __init__(self, message: str, *, rank: int = 0, traceback: str = "") -> None:
        super().__init__(message)
        self.rank, self.traceback = rank, traceback


class CannotShip(UnisonoError):
    """A function, an argument or a result cannot be carried to or from a pod; the message says what to do."""
