"""Pauses of Python's garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def collect_now() -> None:
    """Free reference cycles now: for work without an end in one pause, which would keep all that it makes.

    What is left is not looked at again until the pause ends, so that each call costs what was made since the last.
    """
    if not gc.isenabled():
        gc.collect()
        gc.freeze()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Let nothing be searched for reference cycles inside, if anything was before.

    A cycle, or a list of pods, makes many small objects within a second that are given back, handed out or kept. Each
    few hundred of them would start a search, and every so often one through the whole state of the cluster. What was
    made inside counts as old at once, so that no search goes through it right afterwards; the next search through
    everything sees it like all else. Objects that were frozen before are looked at again, too.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # together these two move all objects to the oldest generation, and look at none
        gc.unfreeze()
        gc.enable()
