"""What errors keep alive: the frames of their tracebacks, with all that was local there."""

from __future__ import annotations

import traceback


def free_frames(error: BaseException) -> None:
    """Free what the frames of a handled error hold; call it where an error ends whose way was long.

    Where one of the frames lists the errors of many requests, it holds itself, and objects of megabytes with it, until
    the garbage collector looks through everything, which the few objects of such a circle do not make it do.
    """
    traceback.clear_frames(error.__traceback__)
