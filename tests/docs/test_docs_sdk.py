"""The Python examples of docs/sdk.md are run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unisono.sdk
from support.plane import REPOSITORY
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


@pytest.mark.processes
@pytest.mark.unshared
@pytest.mark.parametrize("number", range(len(EXPECTED)))
def test_an_example_does_what_it_says(number: int, tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text(EXAMPLES[number])
    environment = {**os.environ, "UNISONO_DATA_DIR": str(tmp_path / "none")}
    done = subprocess.run(
        [sys.executable, str(file)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert re.fullmatch(EXPECTED[number], done.stdout), done.stdout + done.stderr


def test_limits_and_options_are_the_codes() -> None:
    assert f"{MAX_PAYLOAD // 1000} kB" in TEXT
    assert f"{MAX_RESULT // 2**20} MiB" in TEXT
    for name in GangOptions.__slots__:
        assert f"`{name}`" in TEXT or f"{name}=" in TEXT, name


def test_the_public_names_exist() -> None:
    for name in unisono.sdk.__all__:
        assert getattr(unisono.sdk, name)
