"""The program in the pods, run without Unisono: an image needs Python and nothing else of ours."""

from __future__ import annotations

import base64
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from unisono.sdk import CannotShip, RemoteError
from unisono.sdk.functions import pod_entrypoint
from unisono.sdk.functions.launch import Frames

TOKEN = "unisono-result-42"
SCRIPT = """
from unisono.sdk import Client, Job, gang, rank, world_size

class Answer:
    def __init__(self, value): self.value = value

@gang(workers=2, cpu=1)
def work(factor):
    print("about to answer")
    return factor * 10 + rank(), world_size()

@gang()
def other():
    return work(1)

def count(item):
    return item + 1

def large(size):
    return b"x" * size

def fails():
    raise ValueError("no")
"""


def run(
    folder: Path, name: str, call: Any, *, mode: str = "gang", rank: int = 0, size: int = 2, results: str = ""
) -> Frames:
    """The frames that the worker writes, in a Python without installed packages."""
    task = {
        "token": TOKEN,
        "mode": mode,
        "results": results,
        "function": {"kind": "file", "file": "/gone/train.py", "source": SCRIPT, "name": name},
        "path": [],
        "call": base64.b64encode(pickle.dumps(call)).decode(),
    }
    (folder / "task.json").write_text(json.dumps(task))
    program = folder / "worker.py"
    program.write_text(Path(pod_entrypoint.__file__).read_text())
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(program), str(folder)],
        env={**os.environ, "VC_TASK_INDEX": str(rank), "WORLD_SIZE": str(size)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    found = Frames(TOKEN)
    others = [line for line in done.stdout.splitlines() if line and not found.feed(line)]
    assert others == (["about to answer"] if name == "work" else []), done.stderr
    return found


def test_a_script_that_imports_the_sdk_runs_without_it(tmp_path: Path) -> None:
    assert run(tmp_path, "work", ((4,), {}), rank=1).value(1) == (41, 2)


@pytest.mark.parametrize(("rank", "share"), [(0, {0: 6, 2: 8}), (1, {1: 7})])
def test_map_gives_every_pod_its_part(tmp_path: Path, rank: int, share: dict[int, int]) -> None:
    assert run(tmp_path, "count", [5, 6, 7], mode="map", rank=rank).value(rank) == share


def test_a_gang_within_a_gang_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RemoteError, match='below if __name__ == "__main__"'):
        run(tmp_path, "other", ((), {})).value(0)


def test_tracebacks_show_lines_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RemoteError, match="TypeError") as raised:
        run(tmp_path, "count", (("text",), {})).value(0)
    assert "return item + 1" in raised.value.traceback


LARGE = 5 * 1024 * 1024


def test_a_large_result_goes_through_a_file_that_is_taken_away(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    found = run(tmp_path, "large", ((LARGE,), {}), results=str(results))
    assert len(list(results.iterdir())) == 1
    assert found.value(0, results) == b"x" * LARGE
    assert not list(results.iterdir())


def test_a_file_that_somebody_has_changed_is_not_read(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    found = run(tmp_path, "large", ((LARGE,), {}), results=str(results))
    (file,) = results.iterdir()
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    with pytest.raises(CannotShip, match="has changed"):
        found.value(0, results)
    with pytest.raises(CannotShip, match="cannot be read"):
        found.value(0, tmp_path / "elsewhere")


def test_a_large_result_without_a_place_for_it_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(RemoteError, match="results_dir"):
        run(tmp_path, "large", ((LARGE,), {})).value(0)


def test_a_traceback_begins_with_the_users_frames(tmp_path: Path) -> None:
    with pytest.raises(RemoteError) as raised:
        run(tmp_path, "fails", ((), {})).value(0)
    assert raised.value.traceback.splitlines()[1] == '  File "/gone/train.py", line 23, in fails'
