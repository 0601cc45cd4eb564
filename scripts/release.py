"""Build what a release publishes into dist/: wheel, source archive, chart, bill of materials (CycloneDX), checksums.

Run it with the environment of ``make lint``, in a clean clone::

    .venv/bin/python scripts/release.py
    cd dist && sha256sum --check SHA256SUMS
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parents[1]
CHART = HOME / "deploy" / "chart" / "unisono"
# From the lock of `pip install unisono[fast]`: a name, a version, and a condition where there is one.
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)\s*(?:;\s*(.*?))?\s*\\?$", re.MULTILINE)
BUILD = frozenset({"editables", "hatchling", "pathspec", "pluggy", "trove-classifiers"})
_SUMS = "SHA256SUMS"


def version() -> str:
    """The version that is released."""
    found = re.search(r'^__version__ = "(.+)"$', (HOME / "src/unisono/__init__.py").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit("src/unisono/__init__.py has no __version__")
    return found[1]


def components(lock: str) -> Iterator[dict[str, Any]]:
    """What the lock names, without what only builds."""
    for name, number, condition in _LOCKED.findall(lock):
        if name not in BUILD:
            purl = f"pkg:pypi/{name.lower()}@{number}"
            component = {"type": "library", "bom-ref": purl, "name": name, "version": number, "purl": purl}
            yield component | ({"properties": [{"name": "python:marker", "value": condition}]} if condition else {})


def materials(lock: str, number: str) -> dict[str, Any]:
    """A CycloneDX 1.5 bill of materials; the same lock and version give the same text."""
    own = f"pkg:pypi/unisono@{number}"
    parts = sorted(components(lock), key=lambda part: str(part["purl"]))
    serial = uuid.uuid5(uuid.NAMESPACE_URL, own + hashlib.sha256(lock.encode()).hexdigest())
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": own, "name": "unisono", "version": number, "purl": own}
        },
        "components": parts,
        "dependencies": [{"ref": own, "dependsOn": [part["bom-ref"] for part in parts]}],
    }


def chart(number: str) -> bytes:
    """The Helm chart as ``helm package`` makes it; the same files give the same bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(CHART.rglob("*")):
            if path.is_file():
                entry = tarfile.TarInfo(f"unisono/{path.relative_to(CHART)}")
                entry.size, entry.mode = path.stat().st_size, 0o644
                archive.addfile(entry, io.BytesIO(path.read_bytes()))
    return gzip.compress(packed.getvalue(), mtime=0)


def checksums(folder: Path) -> str:
    """One line for each file, as ``sha256sum`` writes and checks them."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != _SUMS)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def main() -> int:
    """Build everything."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--folder", type=Path, default=HOME / "dist", help="where to, by default dist/")
    folder: Path = parser.parse_args().folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SystemExit(f"{folder} has files of an earlier build: empty it first")
    number = version()
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=HOME, check=True)
    lock = (HOME / "requirements" / "run.lock").read_text()
    (folder / f"unisono-{number}.cdx.json").write_text(json.dumps(materials(lock, number), indent=2) + "\n")
    # Not unisono-VERSION.tgz, which one would take for the source archive.
    (folder / f"unisono-chart-{number}.tgz").write_bytes(chart(number))
    (folder / _SUMS).write_text(checksums(folder))
    print((folder / _SUMS).read_text(), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
