"""A pause for the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Let nothing be searched for reference cycles inside, if anything was before.

    A cycle, or a list of pods, makes many small objects within a second that are given back, handed out or kept. Each
    few hundred of them would start a search, and every so often one through the whole state of the cluster.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
