"""One side of a comparison: measures rows of the tree on its path, as it is told to.

It reads names of rows, each on a line, builds them, and measures the present one for each empty line. For a line it
answers with one: what it measured, in seconds, or ``ready``.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable

_NAMES = {
    "unisono.api.groups": "unisono.api",
    "unisono.api.groups.batch": "unisono.api.batch",
    "unisono.api.groups.scheduling": "unisono.api.scheduling",
    "unisono.engine.config_file": "unisono.engine",
    "unisono.engine.config_file.reader": "unisono.engine.config",
    "unisono.engine.config.model": "unisono.engine.config",
    "unisono.gc_pauses": "unisono.cluster.quiet",
}
"""Modules that benchmarks use, and what older trees called them."""
_MOVED = {("unisono.api.base", "LabelSelector"): "unisono.api.meta"}
"""Where older trees had what benchmarks take from another module."""
_SHORT = 0.02
"""Seconds up to which a measurement is repeated, to take the fastest."""


def _know_older_names() -> None:
    for name, older in _NAMES.items():
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            sys.modules[name] = importlib.import_module(older)
    for (name, what), older in _MOVED.items():
        module = importlib.import_module(name)
        if not hasattr(module, what):
            setattr(module, what, getattr(importlib.import_module(older), what))


def main() -> None:
    _know_older_names()
    from benchmarks.compare.rows import Measure, rows

    known = rows(quick="--quick" in sys.argv)
    measure: Measure | None = None
    gc.disable()
    for line in sys.stdin:
        name = line.rstrip("\n")
        if name:
            measure = None
            gc.unfreeze()
            gc.collect()
            measure = known[name][1]()
            gc.collect()
            gc.freeze()  # as a long-lived scheduler does: the state is no garbage
            measure()  # modules are imported when they are first used
            answer = "ready"
        else:
            assert measure is not None
            answer = repr(_fastest(measure))
        print(answer, flush=True)


def _fastest(measure: Callable[[], float]) -> float:
    gc.collect()
    best = measure()
    left = _SHORT - best
    while left > 0:
        taken = measure()
        best, left = min(best, taken), left - max(taken, 1e-4)
    return best


if __name__ == "__main__":
    main()
