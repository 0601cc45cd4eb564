"""Settings of the interpreter for a process that answers others while it works."""

from __future__ import annotations

import gc
import sys

# New objects between two searches of the garbage collector, then how many of those there are to the next wider one.
_SEARCHES = (700, 10, 1_000)
_SWITCH_SECONDS = 0.001


def set_pace() -> None:
    """Keep pauses short; call once, when everything that stays has been loaded.

    Objects of the API are trees, which go as soon as nobody holds them; what the collector finds are a few tasks and
    exceptions, nearly all of them young. Searches among the young are kept small, a millisecond each; through the whole
    state, which takes half a second, goes one in a thousand, and only when the state has grown by a quarter.

    The thread that decides hands the interpreter over each millisecond, so that it does not hold up the requests.
    """
    gc.set_threshold(*_SEARCHES)
    sys.setswitchinterval(_SWITCH_SECONDS)
