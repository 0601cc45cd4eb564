"""A pause for the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


class _Collector:
    """What is known of the process's collector."""

    # Remembered here: asking for it makes it count what is frozen, a third of a second for a million objects.
    frozen = False


def freeze_for_good() -> None:
    """No search looks at what exists now any more; for a process whose parts are all loaded."""
    _Collector.frozen = True
    gc.freeze()


@contextmanager
def collector_paused(*, keeps: bool = False) -> Iterator[None]:
    """Let nothing be searched for reference cycles inside, if anything was before.

    A cycle, or a list of pods, makes many small objects within a second that are given back, handed out or kept. Each
    few hundred of them would start a search, and every so often one through the whole state of the cluster.

    Args:
        keeps: what is made inside stays. It counts as old at once, so that no search goes through it right afterwards;
            the next search through everything sees it like all else. Nothing of that after ``freeze_for_good``.

    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if keeps and not _Collector.frozen:
            gc.freeze()  # together these two move all objects to the oldest generation, and look at none
            gc.unfreeze()
        gc.enable()
