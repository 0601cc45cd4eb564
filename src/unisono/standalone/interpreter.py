"""Settings of the interpreter for a process that answers others while it works."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress

# New objects between two searches of the garbage collector, then how many of those there are to the next wider one.
_SEARCHES = (700, 10, 100)
_SWITCH_SECONDS = 0.001
# Of glibc's malloc.h: parameter numbers of mallopt.
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
_BIG_BYTES, _ARENAS = 256 * 1024, 2


def set_pace() -> None:
    """Keep pauses short; call once, when everything that stays has been loaded.

    Objects of the API are trees, which go with their last reference; what the collector finds are a few tasks and
    exceptions, nearly all of them young. Searches among the young are kept small, a millisecond each; through the whole
    state, which takes half a second, goes one in a hundred, and only when the state has grown by a quarter.

    The thread that decides hands the interpreter over each millisecond, so that it does not hold up the requests.
    """
    gc.set_threshold(*_SEARCHES)
    sys.setswitchinterval(_SWITCH_SECONDS)
    _return_big_blocks()


def _return_big_blocks() -> None:
    """Have glibc give every big block back to the system as soon as it is freed; other C libraries are left alone.

    By itself glibc moves that bound up to 32 MiB once such a block was freed. Buffers of large objects then come from
    the heaps of the threads that decode them, and small blocks among them keep their memory.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _BIG_BYTES)
        mallopt(_ARENA_MAX, _ARENAS)
