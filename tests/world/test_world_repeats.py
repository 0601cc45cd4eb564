"""The same seed makes the same history, byte by byte: here, in another process, and with other hashes of texts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from world_plane import lived
from world_profiles import NAMES, seeds_of, story

_HERE = Path(__file__).parent
# Of kinds whose worlds take long one is lived, of others two.
_LONG = {"reloads", "answers", "choices"}
# What repeats while things happen repeats at rest too: the rest is cut short.
_PROGRAM = """
import sys
import world_plane
from world_profiles import story
if sys.argv[1] == "brief":
    world_plane._REST = world_plane._APART = 2.0
for seed in sys.argv[2:]:
    print(seed, world_plane.lived(story(int(seed), short=True)).digest, flush=True)
"""


def _digests(seeds: Iterable[int], hashes: int, how: str = "brief") -> list[str]:
    root = _HERE.parents[1]
    path = os.pathsep.join([str(_HERE), str(root), str(root / "src")])
    environment = {**os.environ, "PYTHONHASHSEED": str(hashes), "PYTHONPATH": path}
    words = [sys.executable, "-c", _PROGRAM, how, *map(str, seeds)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=True)
    return done.stdout.splitlines()


def test_a_seed_makes_the_same_history_again_and_in_another_process() -> None:
    here = [f"2 {lived(story(2, short=True)).digest}" for _ in range(2)]

    assert here[0] == here[1]
    assert _digests([2], 1, "whole") == here[:1]


@pytest.mark.more
@pytest.mark.parametrize("kind", NAMES)
def test_worlds_of_each_kind_make_the_same_histories_whatever_the_hashes_of_texts(kind: str) -> None:
    seeds = seeds_of(kind, 1 if kind in _LONG else 2)

    assert _digests(seeds, 1) == _digests(seeds, 2)
