"""What a newcomer sees before anything is installed: ``make`` on a clone, with the Pythons that a machine may have."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from support import programs
from support.plane import REPOSITORY

REFUSED = (
    "HTTPSConnection(host='index', port=443): Failed to establish a new connection: [Errno 111] Connection refused"
)


@pytest.fixture(scope="module")
def set_up() -> ModuleType:
    spec = importlib.util.spec_from_file_location("set_up", REPOSITORY / "scripts" / "set_up.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (
            f"WARNING: Retrying (Retry(total=0)): {REFUSED}\nERROR: No matching distribution found for a==1",
            "does not answer",
        ),
        ("error: Request failed after 3 retries\n  Caused by: dns error: failed to lookup address", "does not answer"),
        ("ERROR: No matching distribution found for aiohttp==3.14.5", "no aiohttp==3.14.5 for this machine"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "the disk is full"),
        ("OSError: [Errno 30] Read-only file system: '/home/me/.cache'", "cannot be written"),
        ("ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 407'))", "the proxy refuses"),
        (
            "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]'))",
            "certificate that is not trusted",
        ),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "holds another file"),
        ("  error: command 'gcc' failed: No such file or directory\nERROR: Failed building wheel for x", "C compiler"),
        ("/clone/.venv/bin/python: No module named pip", "rm -rf .venv"),
        ("note: nothing known\nERROR: something else\n", "ERROR: something else"),
        ("", "no reason"),
    ],
)
def test_a_failure_is_one_sentence_with_its_cause(set_up: ModuleType, written: str, said: str) -> None:
    sentence = set_up.cause(written, ".venv")
    assert said in sentence
    assert "\n" not in sentence


def test_progress_never_goes_back_and_tells_what_is_done(set_up: ModuleType) -> None:
    lines = ["Collecting a==1\n", "  Downloading a.whl\n", "WARNING: Retrying (Retry(total=4))\n", "Collecting b==2\n"]
    steps = list(set_up.progress([*lines, "Installing collected packages: a, b\n"], most=2))
    assert [what for _, what in steps] == [
        "fetching packages",
        "the package index does not answer, trying again",
        "fetching packages",
        "installing packages",
    ]
    shares = [share for share, _ in steps]
    assert shares == sorted(shares)
    assert max(shares) <= 1


class Clone:
    """The Makefile and its script in a folder, on a machine that has no programs but ``sh`` and what is put there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder / "clone", folder / "bin"
        for path in ("Makefile", "scripts/set_up.py", "requirements/run.lock", "pyproject.toml"):
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / path, self.folder / path)
        self.bin.mkdir()
        for name in ("sh", "rm", "touch", "cat"):
            (self.bin / name).symlink_to(shutil.which(name) or f"/bin/{name}")

    def program(self, name: str, text: str) -> None:
        """Put a shell script on the ``PATH``, or into the clone where the name has a folder."""
        path = self.folder / name if "/" in name else self.bin / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def python(self, name: str, version: str) -> None:
        """A Python of this version, which says what it is asked to do."""
        new = tuple(map(int, version.split("."))) >= (3, 11)
        self.program(
            name,
            f'case "$1" in --version) echo Python {version};; -c) exit {int(not new)};; *) echo "{name} $@";; esac',
        )

    def make(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.bin), "HOME": str(self.folder)}
        command = [shutil.which("make") or "make", *words]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    return Clone(tmp_path)


def test_an_old_python_is_named_with_its_version(clone: Clone) -> None:
    clone.python("python3", "3.9.18")
    done = clone.make("run")
    assert done.returncode != 0
    assert "Unisono needs Python 3.11 or newer; python3 is Python 3.9.18." in done.stderr


def test_a_missing_python_is_called_missing(clone: Clone) -> None:
    done = clone.make("run")
    assert "python3 is not installed" in done.stderr
    assert "PYTHON=" in done.stderr


def test_a_newer_python_beside_the_old_one_is_used(clone: Clone) -> None:
    clone.python("python3", "3.9.18")
    clone.python("python3.12", "3.12.1")
    assert "python3.12 -m venv .venv" in clone.make(".venv/bin/python").stdout


def test_the_python_that_is_named_is_used_or_refused(clone: Clone) -> None:
    clone.python("python3", "3.12.1")
    clone.python("mine", "3.10.1")
    assert "mine is Python 3.10.1" in clone.make("run", "PYTHON=mine").stderr


def test_a_set_up_that_fails_says_why_and_is_tried_again(clone: Clone) -> None:
    real = clone.folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(real)], check=True)
    for _ in range(2):
        done = clone.make("run")
        assert done.returncode != 0
        assert "Set-up failed: the environment has no pip. Remove it, then run make again: rm -rf .venv" in done.stderr
        assert "Traceback" not in done.stderr
    assert "No module named pip" in (real / "set-up.log").read_text()


def test_an_environment_of_another_folder_is_not_used(clone: Clone) -> None:
    real = clone.folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(real)], check=True)
    package = clone.folder / "src" / "unisono"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("print('ran')")
    (real / ".run-ready").touch()
    os.utime(real / ".run-ready", (4e9, 4e9))
    [site] = real.glob("lib/python*/site-packages")
    (site / "unisono.pth").write_text(str(clone.folder / "elsewhere"))
    done = clone.make("run")
    assert done.returncode != 0
    assert ".venv belongs to another folder" in done.stderr
    (site / "unisono.pth").write_text(str(package.parent))
    assert clone.make("run").stdout.splitlines() == ["ran"]


def test_missing_programs_are_told_before_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "found", lambda name: None if name in ("kubectl", "cc") else "/usr/bin/x")
    told = programs.missing()
    assert "kubectl, cc" in told
    assert "apt-get install kubernetes-client gcc libc6-dev" in told
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="Debian: apt-get install gcc"):
        programs.needed("cc")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(AssertionError, match="cc is not installed"):
        programs.needed("cc")
