"""The interpreter's settings of a long-lived process: garbage still goes, but nobody waits for searches."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import gc, weakref
from unisono.standalone.pace import set_pace

class Node:
    pass

set_pace()
searches = []
gc.callbacks.append(lambda phase, info: searches.append(info["generation"]) if phase == "stop" else None)
loop = Node()
loop.itself = loop
gone = weakref.ref(loop)
del loop
kept = [[index] for index in range(200_000)]
assert gone() is None, "a reference cycle must be found while work goes on"
assert 1 <= len(searches) <= 4, searches
assert 2 not in searches, "what has just come in is not searched as a whole"
"""


def test_garbage_is_found_with_few_searches() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
