"""The interpreter's settings of a long-lived process: garbage still goes, in searches too small to wait for."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import gc, weakref
from unisono.standalone.loop import set_pace

class Node:
    pass

set_pace()
searches = []
note = lambda phase, info: phase == "start" and searches.append((info["generation"], gc.get_count()))
gc.callbacks.append(note)
loop = Node()
loop.itself = loop
gone = weakref.ref(loop)
del loop
kept = [[index] for index in range(200_000)]
assert gone() is None, "a reference cycle must be found while work goes on"
assert searches
assert all(young <= 2_000 and rounds <= 20 for _, (young, rounds, _) in searches), "searches must be short"
assert all(generation < 2 for generation, _ in searches), "what has just come in is not searched as a whole"
"""


def test_garbage_is_found_in_short_searches() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
