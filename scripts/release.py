"""Build what a release publishes into dist/: packages, chart, images, bill of materials, checksums and provenance.

``make release`` runs it on a clean tree at the tag of the version, with all of that. Alone it builds what needs no tag
and no packages of Debian::

    .venv/bin/python scripts/release.py
    cd dist && sha256sum --check SHA256SUMS

The same commit gives the same bytes: times in archives are those of the commit.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

sys.path.append(str(Path(__file__).resolve().parent))
import oci
import provenance

HOME = Path(__file__).resolve().parents[1]
CHART = HOME / "deploy" / "chart" / "unisono"
# From the lock of `pip install unisono[fast]`: a name, a version, and a condition where there is one.
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)\s*(?:;\s*(.*?))?\s*\\?$", re.MULTILINE)
BUILD = frozenset({"editables", "hatchling", "packaging", "pathspec", "pluggy", "tomlkit", "trove-classifiers"})
_SUMS = "SHA256SUMS"
_PROVENANCE = "provenance.intoto.json"
# Made from the other files.
_ABOUT_OTHERS = frozenset({_SUMS, _PROVENANCE})
ARCHITECTURES = ("amd64", "arm64")


def version() -> str:
    """The version that is released."""
    found = re.search(r'^__version__ = "(.+)"$', (HOME / "src/unisono/__init__.py").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit("src/unisono/__init__.py has no __version__")
    return found[1]


def home_page() -> str:
    """Address of the repository, which only pyproject.toml states."""
    return str(tomllib.loads((HOME / "pyproject.toml").read_text())["project"]["urls"]["Repository"])


def labels(number: str) -> dict[str, str]:
    """Annotations of images and of the chart, by names that OCI defines."""
    told = {"version": number, "licenses": "Apache-2.0", "source": home_page()}
    told |= {"revision": revision} if (revision := git("rev-parse", "HEAD")) else {}
    return {f"org.opencontainers.image.{name}": text for name, text in told.items()}


def git(*words: str) -> str:
    """What git says of this repository; empty without one, as in a source archive."""
    done = subprocess.run(["git", *words], cwd=HOME, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def refusal(number: str) -> str:
    """Why this tree is not what the tag of version ``number`` names; empty if it is."""
    if changed := git("status", "--porcelain"):
        return "a release is built from a clean tree; git status names:\n" + changed
    if f"v{number}" not in git("tag", "--points-at", "HEAD").split():
        return f"HEAD has no tag v{number}, and src/unisono/__init__.py says that this is {number}"
    return ""


def components(lock: str) -> Iterator[dict[str, Any]]:
    """What the lock names, without what only builds."""
    for name, number, condition in _LOCKED.findall(lock):
        if name not in BUILD:
            purl = f"pkg:pypi/{name.lower()}@{number}"
            component = {"type": "library", "bom-ref": purl, "name": name, "version": number, "purl": purl}
            yield component | ({"properties": [{"name": "python:marker", "value": condition}]} if condition else {})


def debian_components(packages: Mapping[str, Iterable[str]]) -> Iterator[dict[str, Any]]:
    """What the image has of Debian, by architecture: packages as ``NAME_VERSION``."""
    for architecture, names in packages.items():
        for name, _, number in (each.partition("_") for each in names):
            purl = f"pkg:deb/debian/{name}@{quote(number)}?arch={architecture}"
            yield {"type": "library", "bom-ref": purl, "name": name, "version": number, "purl": purl}


def materials(lock: str, number: str, debian: Mapping[str, Iterable[str]] | None = None) -> dict[str, Any]:
    """A CycloneDX 1.5 bill of materials; the same lock, version and packages of the image give the same text."""
    own = f"pkg:pypi/unisono@{number}"
    parts = sorted([*components(lock), *debian_components(debian or {})], key=lambda part: str(part["purl"]))
    seed = own + lock + "".join(str(part["purl"]) for part in parts)
    serial = uuid.uuid5(uuid.NAMESPACE_URL, hashlib.sha256(seed.encode()).hexdigest())
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
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name not in _ABOUT_OTHERS)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def images(wheel: Path) -> tuple[bytes, dict[str, list[str]]]:
    """The container image for every architecture, with the wheel in it; and what it has of Debian."""
    import image  # it imports this module

    made, debian = image.build(wheel, ARCHITECTURES)
    return made, debian


def build(folder: Path, *, with_images: bool) -> None:
    """Fill the empty ``folder``."""
    number = version()
    made_at = git("log", "-1", "--format=%ct") or "1577836800"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": made_at}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=HOME, check=True, env=environment
    )
    # Not unisono-VERSION.tgz, which one would take for the source archive.
    packed = chart(number)
    (folder / f"unisono-chart-{number}.tgz").write_bytes(packed)
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    (folder / f"unisono-chart-{number}.oci.tar").write_bytes(oci.chart(packed, about, labels(number)))
    debian: dict[str, list[str]] = {}
    if with_images:
        (wheel,) = folder.glob("*.whl")
        made, debian = images(wheel)
        (folder / f"unisono-image-{number}.oci.tar").write_bytes(made)
    bill = materials((HOME / "requirements" / "run.lock").read_text(), number, debian)
    (folder / f"unisono-{number}.cdx.json").write_text(json.dumps(bill, indent=2) + "\n")
    sums = checksums(folder)
    (folder / _SUMS).write_text(sums)
    revision = git("rev-parse", "HEAD")
    statement = provenance.statement(sums, home_page(), f"v{number}", revision, int(made_at))
    (folder / _PROVENANCE).write_text(json.dumps(statement, indent=2) + "\n")


def main() -> int:
    """Build everything."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--folder", type=Path, default=HOME / "dist", help="where to, by default dist/")
    parser.add_argument("--tagged", action="store_true", help="refuse all but a clean tree at the tag of the version")
    parser.add_argument("--images", action="store_true", help="the container image for amd64 and arm64, too")
    parser.add_argument("--sign", choices=("dry-run", "identity"), help="sign, or only say how")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    if options.tagged and (why := refusal(version())):
        raise SystemExit(why)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SystemExit(f"{folder} has files of an earlier build: empty it first")
    build(folder, with_images=options.images)
    print((folder / _SUMS).read_text(), end="")
    for path in sorted(folder.glob("*.oci.tar")):
        print(f"{path.name} names {oci.digest(path.read_bytes())}")
    if options.sign:
        provenance.sign(folder, (_SUMS, _PROVENANCE), dry=options.sign == "dry-run")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
