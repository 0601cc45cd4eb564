"""Install a wheel alone into an empty environment, and run a job, a control plane and its end with it.

It needs nothing but Python and a package index, and compiles nothing: packages without a wheel for this machine
fail it::

    python3.13 scripts/try_wheel.py dist/unisono-X.Y.Z-py3-none-any.whl
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path


def run(words: list[str], home: Path) -> str:
    """What a command prints; SystemExit with all of it where it fails."""
    # Nothing of who runs this: neither their configuration nor their programs, but for where packages come from.
    kept = {name: text for name, text in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTP", "http"))}
    environment = kept | {"PATH": "/usr/bin:/bin", "HOME": str(home), "UNISONO_HOME": str(home / "unisono")}
    done = subprocess.run(words, cwd=home, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def expect(text: str, words: list[str], home: Path) -> None:
    """Run a command that must print ``text``."""
    printed = run(words, home)
    if text not in printed:
        raise SystemExit(f"{' '.join(words)} did not print {text!r}, but:\n{printed}")
    print(f"ok: unisono {' '.join(words[1:])}", flush=True)


def main() -> int:
    """Try it; 0 if all works."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("wheel", type=Path)
    wheel: Path = parser.parse_args().wheel.resolve()
    with tempfile.TemporaryDirectory(prefix="unisono-wheel-") as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=True)
        python, unisono = (str(home / "venv" / "bin" / name) for name in ("python", "unisono"))
        run([python, "-m", "pip", "install", "--quiet", "--only-binary=:all:", str(wheel)], home)
        print(f"installed {wheel.name} for Python {sys.version.split()[0]}, without compiling", flush=True)
        expect(wheel.name.split("-")[1], [unisono, "version"], home)
        expect("completed", [unisono, "run", "-n", "2", "--", "/bin/echo", "hello"], home)
        try:
            expect("Unisono is up", [unisono, "up", "--detach"], home)
            expect("hello", [unisono, "run", "-n", "2", "--", "/bin/echo", "hello"], home)
            expect("scheduler", [unisono, "status"], home)
        finally:
            expect("Stopped", [unisono, "down"], home)
        # What is missing is said in one sentence.
        run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "msgspec"], home)
        done = subprocess.run([unisono, "status"], capture_output=True, text=True, check=False, cwd=home)
        if done.returncode != 1 or "the package msgspec" not in done.stderr or done.stderr.count("\n") != 1:
            raise SystemExit(f"a missing package is not told in one sentence:\n{done.stderr}")
        print("ok: a missing package is told in one sentence")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
