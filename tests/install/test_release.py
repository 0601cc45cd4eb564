"""What a release publishes: wheel and source archive that work by themselves, chart, bill of materials, checksums."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.plane import PATIENCE, REPOSITORY

sys.path.append(str(REPOSITORY / "scripts"))
release: Any = import_module("release")

LOCK = """
aiohttp==3.14.5 \\
    --hash=sha256:0000
numpy==2.2.6 ; python_full_version < '3.11' \\
    --hash=sha256:0001
hatchling==1.27.0 \\
    --hash=sha256:0002
"""


def test_the_bill_of_materials_names_what_is_installed_with_it_and_not_what_builds_it() -> None:
    made = release.materials(LOCK, "1.2.3")
    assert [part["purl"] for part in made["components"]] == ["pkg:pypi/aiohttp@3.14.5", "pkg:pypi/numpy@2.2.6"]
    assert made["components"][1]["properties"] == [{"name": "python:marker", "value": "python_full_version < '3.11'"}]
    assert made["dependencies"] == [
        {"ref": "pkg:pypi/unisono@1.2.3", "dependsOn": [part["bom-ref"] for part in made["components"]]}
    ]
    assert made == release.materials(LOCK, "1.2.3"), "the same lock gives the same text"
    assert made["serialNumber"] != release.materials(LOCK, "1.2.4")["serialNumber"]


def test_the_bill_of_materials_has_every_requirement_of_the_package() -> None:
    lock = (REPOSITORY / "requirements" / "run.lock").read_text()
    named = {part["name"].lower() for part in release.components(lock)}
    assert {"aiohttp", "click", "cryptography", "msgspec", "numpy", "pyyaml", "structlog", "tzdata"} <= named
    locked = [line for line in lock.splitlines() if "==" in line and not line.startswith(" ")]
    builds = [line for line in locked if line.partition("==")[0] in release.BUILD]
    assert len(locked) - len(builds) == len(list(release.components(lock)))


def test_the_bill_of_materials_names_what_the_image_has_of_debian() -> None:
    packages = {"amd64": ["libc6_2.36-9+deb12u14"], "arm64": ["libssl3_1:3.0~1"]}
    made = release.materials(LOCK, "1.2.3", packages)
    assert [part["purl"] for part in made["components"]][:2] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=amd64",
        "pkg:deb/debian/libssl3@1%3A3.0~1?arch=arm64",
    ]
    assert len(made["dependencies"][0]["dependsOn"]) == len(made["components"]) == 4
    assert made["serialNumber"] != release.materials(LOCK, "1.2.3")["serialNumber"]


def required(*roots: str) -> set[str]:
    """The packages and all that they require where they are installed."""
    left, found = list(roots), set[str]()
    while left:
        name = left.pop().lower().replace("_", "-")
        if name not in found:
            found.add(name)
            with suppress(PackageNotFoundError):
                # What an extra asks for has a marker that names it.
                asked = [each for each in requires(name) or () if "extra ==" not in each]
                left += [match[0] for each in asked if (match := re.match(r"[\w.-]+", each))]
    return found


def test_what_only_builds_is_known_by_name() -> None:
    about = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    more = about["optional-dependencies"]
    runs = required(
        *(
            name
            for each in (*about["dependencies"], *more["fast"], "psycopg")
            if (name := re.split(r"[\[<>=]", each)[0])
        )
    )
    locked = {
        part.partition("==")[0]
        for part in (REPOSITORY / "requirements" / "run.lock").read_text().splitlines()
        if "==" in part
    }
    builds = (required("hatchling", "editables") - runs) & locked
    assert builds == release.BUILD


def test_the_chart_has_every_file_and_is_the_same_each_time() -> None:
    packed = release.chart("1.2.3")
    assert packed == release.chart("1.2.3")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        names = set(archive.getnames())
        text = archive.extractfile("unisono/Chart.yaml")
        assert text is not None and yaml.safe_load(text)["name"] == "unisono"
    files = {f"unisono/{path.relative_to(release.CHART)}" for path in release.CHART.rglob("*") if path.is_file()}
    assert names == files


def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "b.whl").write_bytes(b"b")
    (tmp_path / "a.tar.gz").write_bytes(b"a")
    (tmp_path / "SHA256SUMS").write_text("old")
    lines = release.checksums(tmp_path).splitlines()
    assert lines == [
        f"{hashlib.sha256(text).hexdigest()}  {name}" for name, text in (("a.tar.gz", b"a"), ("b.whl", b"b"))
    ]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release, built once."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm here, which builds the dashboard's page")
    folder = tmp_path_factory.mktemp("dist")
    script = REPOSITORY / "scripts" / "release.py"
    subprocess.run([sys.executable, str(script), "--folder", str(folder)], check=True, timeout=PATIENCE)
    return folder


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Path]:
    """An environment with nothing of this repository; what others publish comes from the one that runs the tests."""
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, timeout=PATIENCE)
    (site,) = home.glob("lib/python3*/site-packages")
    # Paths that this names are searched after the environment's own; editable installs behind them are not followed.
    paths = dict.fromkeys(
        [sysconfig.get_path("purelib"), *(path for path in sys.path if path.endswith("site-packages"))]
    )
    (site / "others.pth").write_text("".join(f"{path}\n" for path in paths))
    yield home


@pytest.mark.more
@pytest.mark.parametrize("pattern", ["*.whl", "*[0-9].tar.gz"])
def test_a_package_works_in_an_empty_environment(built: Path, empty: Path, pattern: str, tmp_path: Path) -> None:
    (package,) = built.glob(pattern)

    def run(*words: str, **more: Any) -> str:
        done = subprocess.run(
            words, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE, **more
        )
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    program = str(empty / "bin" / "python")
    run(program, "-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation", str(package))
    where = run(program, "-c", "import unisono; print(unisono.__file__)").strip()
    assert Path(where).is_relative_to(empty), "it is the package that runs, and not this repository"
    command = str(empty / "bin" / "unisono")
    assert release.version() in run(command, "--version")
    printed = list(yaml.load_all(run(command, "install", "--dry-run"), Loader=yaml.CSafeLoader))
    assert {"CustomResourceDefinition", "Deployment", "ValidatingWebhookConfiguration"} <= {
        one["kind"] for one in printed
    }
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "UNISONO_HOME": str(tmp_path / "home")}
    said = run(command, "run", "-n", "2", "--", "/bin/echo", "from the package", env=environment)
    assert said.count("from the package") == 2


@pytest.mark.more
def test_checksums_and_bill_of_materials_of_a_release(built: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=built, check=True)
    (bill,) = built.glob("*.cdx.json")
    assert json.loads(bill.read_text())["bomFormat"] == "CycloneDX"
    with tarfile.open(next(built.glob("*[0-9].tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "deploy/Dockerfile", "requirements/run.lock"} <= names
    assert not [name for name in names if name.startswith((".venv", "dist", "node_modules"))]
