"""Where a package is missing or made for another machine, one sentence says so, and how to mend it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("package", ["click", "msgspec", "yaml"])
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("raise ModuleNotFoundError('No module', name={name!r})", "which Unisono needs, is not installed for"),
        ("raise ImportError('libc.musl.so: no such file', name={name!r})", "cannot be loaded by"),
    ],
)
def test_a_package_that_is_missing_is_told_in_one_sentence(package: str, how: str, told: str, tmp_path: Path) -> None:
    (tmp_path / f"{package}.py").write_text(how.format(name=package))
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from unisono.cli.main import main; main(['status'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"the package {package}" in done.stderr
    assert told in done.stderr
    assert "pip" in done.stderr


def test_without_pip_another_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise ModuleNotFoundError('No module', name='msgspec')")
    program = (
        f"import sys, importlib.util as util; sys.path.insert(0, {str(tmp_path)!r}); find = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'pip' else find(name, *more)\n"
        "from unisono.cli.main import main; main(['get', 'pods'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pipx install unisono" in done.stderr
    assert done.stderr.count("\n") == 1
