"""The same seed makes the same history, byte by byte: here, in another process, and with other hashes of texts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from world_plane import lived
from world_story import story

_HERE = Path(__file__).parent
_PROGRAM = """
import sys
from world_plane import lived
from world_story import story
for seed in range(int(sys.argv[1]), int(sys.argv[2])):
    print(seed, lived(story(seed, short=True)).digest, flush=True)
"""


def _digests(first: int, last: int, hashes: int) -> list[str]:
    root = _HERE.parents[1]
    path = os.pathsep.join([str(_HERE), str(root), str(root / "src")])
    environment = {**os.environ, "PYTHONHASHSEED": str(hashes), "PYTHONPATH": path}
    words = [sys.executable, "-c", _PROGRAM, str(first), str(last)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=True)
    return done.stdout.splitlines()


def test_a_seed_makes_the_same_history_again_and_in_another_process() -> None:
    here = [f"{seed} {lived(story(seed, short=True)).digest}" for seed in (2, 5)]

    assert f"2 {lived(story(2, short=True)).digest}" == here[0]
    assert [*_digests(2, 3, 1), *_digests(5, 6, 2)] == here


@pytest.mark.more
def test_more_seeds_make_the_same_histories_whatever_the_hashes_of_texts() -> None:
    assert _digests(0, 10, 1) == _digests(0, 10, 2)


@pytest.mark.more
@pytest.mark.parametrize("seed", [1101, 2001])
def test_contention_and_pauses_make_the_same_histories_in_another_process(seed: int) -> None:
    assert _digests(seed, seed + 1, 1) == _digests(seed, seed + 1, 2)
