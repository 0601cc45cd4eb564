"""Settings of the interpreter for a process that answers others while it works."""

from __future__ import annotations

import gc
import sys

from unisono.cluster.quiet import freeze_for_good

# New objects between two searches of the garbage collector, then how many of those there are to the next wider one.
_SEARCHES = (50_000, 20, 50)
_SWITCH_SECONDS = 0.001


def set_pace() -> None:
    """Keep pauses short; call once, when everything that stays has been loaded.

    Objects of the API are trees, which go as soon as nobody holds them; what the collector finds are a few tasks and
    exceptions. With Python's thresholds it searches the whole state again and again while objects come in by the
    thousand: a fifth of the time, in pauses that every request waits for. What is there now is not looked at any more.

    The thread that decides hands the interpreter over each millisecond, so that it does not hold up the requests.
    """
    freeze_for_good()
    gc.set_threshold(*_SEARCHES)
    sys.setswitchinterval(_SWITCH_SECONDS)
