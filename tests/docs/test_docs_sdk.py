"""The Python examples of docs/sdk.md are run as they stand: the first one on a private control plane."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import unisono.sdk
from support.plane import REPOSITORY, RunningPlane, asked
from unisono.sdk.functions.launch import MAX_PAYLOAD, GangOptions
from unisono.sdk.functions.pod_entrypoint import MAX_RESULT

TEXT = (REPOSITORY / "docs" / "sdk.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
EXPECTED = (
    r"(?s)(?=.*hello-worker-3 \| hello).*Completed\n",
    "True\n",
    "Completed\n",
    "TooLarge 8000000\n",
    r"(?s)(?=.*count-master-0 \| rank 0).*Completed\n2\n",
    r"\['Completed', 'Completed', 'Completed'\]\n",
    r"(?s)(?=.*\[3\] worker 3 of 4\n).*499500\n",
    r"\[1.0, 2.0, 3.0, 4.0\]\n",
)


def test_every_example_has_its_expectation() -> None:
    assert len(EXAMPLES) == len(EXPECTED)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlane]:
    made = RunningPlane(tmp_path_factory.mktemp("plane"), ())
    made.start()
    yield made
    made.stop()
    asked("down", "--kill-pods", "--data-dir", str(made.data_dir), check=False)


def check(number: int, folder: Path, data: Path) -> None:
    file = folder / "example.py"
    file.write_text(EXAMPLES[number])
    done = subprocess.run(
        [sys.executable, str(file)],
        cwd=folder,
        env={**os.environ, "UNISONO_DATA_DIR": str(data)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert re.fullmatch(EXPECTED[number], done.stdout), done.stdout + done.stderr


@pytest.mark.processes
@pytest.mark.unshared
def test_an_example_does_what_it_says_where_no_control_plane_runs(tmp_path: Path) -> None:
    check(0, tmp_path, tmp_path / "none")


@pytest.mark.processes
@pytest.mark.parametrize("number", range(1, len(EXPECTED)))
def test_an_example_does_what_it_says(number: int, folder: Path, plane: RunningPlane) -> None:
    check(number, folder, plane.data_dir)


def test_limits_and_options_are_the_codes() -> None:
    assert f"{MAX_PAYLOAD // 1000} kB" in TEXT
    assert f"{MAX_RESULT // 2**20} MiB" in TEXT
    for name in GangOptions.__slots__:
        assert f"`{name}`" in TEXT or f"{name}=" in TEXT, name


def test_the_public_names_exist() -> None:
    for name in unisono.sdk.__all__:
        assert getattr(unisono.sdk, name)
