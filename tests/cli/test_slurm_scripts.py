"""Shapes of public training scripts reach their training command in all ranks, with one address to meet at."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.slurm_pods import run_batch
from support.slurm_scripts import SCRIPTS, make_programs, script_of

pytestmark = pytest.mark.more


@pytest.mark.parametrize("name", SCRIPTS)
def test_training_begins_in_all_ranks_at_one_address(name: str, tmp_path: Path) -> None:
    done = run_batch(script_of(name), tmp_path, path=make_programs(tmp_path / "bin"))
    assert set(done.codes) == {0}, done.told
    reached = re.findall(r"reached (\S+) by", "\n".join(done.out))
    assert len(reached) == SCRIPTS[name][0], (done.out, done.told)
    [address] = set(reached)
    assert address.endswith(".1"), address
