"""Provenance of a release as an in-toto statement of SLSA, and its signatures by sigstore's client."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_MISSING = "sigstore's client is not installed: pip install --require-hashes -r requirements/release.lock"


def statement(sums: str, repository: str, tag: str, revision: str, committed: int) -> dict[str, Any]:
    """What was built, from what and how.

    Args:
        sums: lines of a digest by SHA-256 and a file's name, as sha256sum writes them.
        repository: its address.
        tag: of the version.
        revision: the commit, in hex; empty where git is not there.
        committed: its time, in seconds since 1970. The time of the build is left out: it would be the only difference
            between two builds of a commit.

    """
    subjects = [line.split(maxsplit=1) for line in sums.splitlines()]
    source = {"uri": f"git+{repository}@refs/tags/{tag}"} | ({"digest": {"gitCommit": revision}} if revision else {})
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for digest, name in subjects],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{repository}/blob/{tag}/RELEASING.md",
                "externalParameters": {"source": source["uri"], "command": "make release"},
                "internalParameters": {
                    "SOURCE_DATE_EPOCH": str(committed),
                    "committed": datetime.fromtimestamp(committed, UTC).isoformat(),
                },
                "resolvedDependencies": [source],
            },
            "runDetails": {"builder": {"id": f"{repository}/blob/{tag}/.github/workflows/release.yml"}},
        },
    }


def commands(folder: Path, names: Iterable[str]) -> list[list[str]]:
    """How each file is signed: with the identity of the workflow, or of who runs it and logs in by the browser."""
    client = [sys.executable, "-m", "sigstore", "sign"]
    return [[*client, "--bundle", str(folder / f"{name}.sigstore.json"), str(folder / name)] for name in names]


def sign(folder: Path, names: Iterable[str], *, dry: bool) -> None:
    """Sign files of ``folder``; ``dry`` asks no service and says what would be done.

    Raises:
        SystemExit: sigstore's client is missing.
        CalledProcessError: it failed; it has said why.

    """
    if importlib.util.find_spec("sigstore") is None:
        if not dry:
            raise SystemExit(_MISSING)
        print(_MISSING)
    for command in commands(folder, names):
        if dry:
            print("would run: python " + " ".join(command[1:]))
        else:
            subprocess.run(command, check=True)
