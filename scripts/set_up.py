"""Install what a lock file names, and the project in place, into a virtual environment; ``make`` calls it.

It shows how far it is. What pip or uv writes goes to ``set-up.log`` in the environment; where they fail, one sentence
says why. Needs the standard library alone, because it runs before anything is installed::

    .venv/bin/python scripts/set_up.py [--only-packages] requirements/run.lock
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

BAR = 24
_PINNED = re.compile(r"^[A-Za-z0-9][\w.-]*==", re.MULTILINE)
# What pip writes for each package, and uv (--verbose) where it has chosen one.
_BEGUN = re.compile(
    r"^(?:Collecting|Requirement already satisfied:|DEBUG (?:Selecting|Requirement already installed):) "
)
_INSTALLING = re.compile(r"^(?:Installing collected packages|DEBUG Installing wheel)")
_RETRYING = re.compile(r"Retrying \(Retry\(")

# The first that is found in what pip or uv wrote is the cause.
CAUSES = (
    (r"No space left on device", "the disk is full. Free some space, then run make again."),
    (
        r"Read-only file system|Permission denied|PermissionError",
        "a folder cannot be written: {venv}, or the cache of packages ($HOME/.cache; PIP_CACHE_DIR names another).",
    ),
    (
        r"(?i)407 Proxy|ProxyError|tunnel connection failed",
        "the proxy refuses the connection. Check https_proxy and no_proxy, then run make again.",
    ),
    (
        r"(?i)CERTIFICATE_VERIFY_FAILED|invalid peer certificate",
        "the package index shows a certificate that is not trusted here. PIP_CERT (uv: SSL_CERT_FILE) names yours.",
    ),
    (
        r"(?i)name resolution|Name or service not known|NewConnectionError|ConnectTimeout|Read timed out"
        r"|operation timed out|network is unreachable|connection (?:refused|reset)|dns error|error sending request",
        "the package index does not answer. Check the network, or name a mirror with PIP_INDEX_URL (uv: "
        "UV_DEFAULT_INDEX), then run make again.",
    ),
    (
        r"DO NOT MATCH THE HASHES|Hash mismatch",
        "a package is not the one that the lock file names: the index, a mirror or a cache holds another file.",
    ),
    (
        r"Failed (?:building wheel|to build)|error: command '.*(?:gcc|cc|clang)",
        "a package has no build for this machine and could not be compiled. Use another Python (make "
        "PYTHON=python3.12), or install a C compiler and the headers of Python.",
    ),
    (
        r"No matching distribution found for (?P<what>\S+)",
        "the package index has no {what} for this machine and Python {python}. A mirror may be behind; another Python "
        "may help (make PYTHON=python3.12).",
    ),
    (r"No module named '?pip", "the environment has no pip. Remove it, then run make again: rm -rf {venv}"),
)


def cause(log: str, venv: str) -> str:
    """Why an installation failed: what comes after "Set-up failed: "."""
    for pattern, sentence in CAUSES:
        found = re.search(pattern, log)
        if found is not None:
            return sentence.format(python=".".join(map(str, sys.version_info[:2])), venv=venv, **found.groupdict())
    said = [line.strip() for line in log.splitlines() if re.match(r"\s*(?:error|×)\b", line, re.IGNORECASE)]
    return said[-1] if said else (log.strip().splitlines() or ["it gave no reason"])[-1]


def commands(lock: Path, packages_only: bool, uv: str | None) -> list[list[str]]:
    """What installs the packages of the lock, and then the project with the build tool that the lock pins."""
    python = sys.executable
    pip = [uv, "pip", "install", "--verbose", "--python", python] if uv else [python, "-u", "-m", "pip", "install"]
    pip += [] if uv else ["--disable-pip-version-check", "--no-input"]
    project = [] if packages_only else [[*pip, "--no-deps", "--no-build-isolation", "-e", "."]]
    return [[*pip, "--require-hashes", "-r", str(lock)], *project]


def progress(lines: Iterable[str], most: int) -> Iterator[tuple[float, str]]:
    """How far an installation is, from what pip or uv writes: shares of one, and what is being done."""
    begun = 0
    for line in lines:
        if _BEGUN.match(line):
            begun += 1
            yield min(0.7, 0.7 * begun / max(1, most)), "fetching packages"
        elif _INSTALLING.match(line):
            yield 0.8, "installing packages"
        elif _RETRYING.search(line):
            yield min(0.7, 0.7 * begun / max(1, most)), "the package index does not answer, trying again"


def show(share: float, what: str, since: float) -> None:
    """One line of a terminal, again and again."""
    full = round(BAR * share)
    line = f"  {'━' * full}{' ' * (BAR - full)} {share:4.0%}  {time.monotonic() - since:3.0f} s  {what}"
    print(f"\r\x1b[2K{line[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)


def run(words: list[str], most: int, log: Path, since: float) -> bool:
    """Run one of the commands; True where it succeeded."""
    on_terminal = sys.stdout.isatty()
    with log.open("a", encoding="utf-8", errors="replace") as file:
        file.write("$ " + " ".join(words) + "\n")
        process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
        )
        assert process.stdout is not None

        def written() -> Iterator[str]:
            for line in process.stdout or ():
                file.write(line)
                yield line

        for share, what in progress(written(), most):
            if on_terminal:
                show(share, what, since)
        return process.wait() == 0


def check(venv: str) -> int:
    """0 where the environment has the project of this folder."""
    found, own = importlib.util.find_spec("unisono"), Path("src/unisono/__init__.py")
    if found is not None and found.origin is not None and own.exists() and own.samefile(found.origin):
        return 0
    told = (
        f"{venv} belongs to another folder: was this one moved or copied? Remove it and run make again: rm -rf {venv}"
    )
    print(told, file=sys.stderr)
    return 1


def main() -> int:
    """Install, and say how it ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only-packages", action="store_true", help="leave the project itself out")
    parser.add_argument("--check", action="store_true", help="say whether the project here is the one installed")
    parser.add_argument("lock", type=Path, nargs="?")
    options = parser.parse_args()
    venv = os.path.relpath(sys.prefix)
    if options.check or options.lock is None:
        return check(venv)
    log = Path(sys.prefix) / "set-up.log"
    since = time.monotonic()
    print(f"Setting up {venv} from {options.lock} (first time only) ...", flush=True)
    most = len(_PINNED.findall(options.lock.read_text()))
    failed = False
    try:
        log.write_text("")
        for words in commands(options.lock, options.only_packages, shutil.which("uv")):
            if not run(words, most, log, since):
                failed = True
                break
    except OSError as error:
        print(f"Set-up failed: {error.strerror}: {error.filename}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nSet-up was interrupted; make begins where it was.", file=sys.stderr)
        return 130
    if sys.stdout.isatty():
        print("\r\x1b[2K", end="")
    if failed:
        print(f"Set-up failed: {cause(log.read_text(errors='replace'), venv)}", file=sys.stderr)
        print(f"All that was written: {os.path.relpath(log)}", file=sys.stderr)
        return 1
    print(f"Set up in {time.monotonic() - since:.0f} s.", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
