"""A release is built by ``make release`` from clean clones at a tag, twice the same, and refused from anything else."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.plane import PATIENCE, REPOSITORY

sys.path.append(str(REPOSITORY / "scripts"))
release: Any = import_module("release")
oci: Any = import_module("oci")
provenance: Any = import_module("provenance")

NUMBER = release.version()
# Set it to build the image as well, twice for two processors.
IMAGE = "UNISONO_TEST_IMAGE"


def clone(place: Path) -> Path:
    """A clone with the tag of the version, as the release's workflow checks it out."""
    here = ["git", "-c", "advice.detachedHead=false", "-C"]
    subprocess.run(["git", "clone", "--quiet", "--shared", str(REPOSITORY), str(place)], check=True)
    subprocess.run([*here, str(place), "tag", "--force", f"v{NUMBER}"], check=True)
    return place


def make(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # The environment of the tests stands for the one that `tools` would set up.
    command = ["make", "--old-file=tools", "release", f"VENV={sys.prefix}", *words]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=3 * PATIENCE, check=False)


def layout(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        found = {name: files.extractfile(name).read() for name in files.getnames()}  # type: ignore[union-attr]
    for name, content in found.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    return found


def blob(files: dict[str, bytes], described: dict[str, Any]) -> bytes:
    content = files["blobs/" + described["digest"].replace(":", "/")]
    assert len(content) == described["size"]
    return content


@pytest.mark.parametrize("change", ["a changed file", "a new file", "no tag", "the tag of another commit"])
def test_a_tree_that_is_not_what_the_tag_names_is_refused(change: str, tmp_path: Path) -> None:
    place = clone(tmp_path / "clone")
    here = ["git", "-c", "user.name=test", "-c", "user.email=test@example.com", "-C", str(place)]
    if change == "a changed file":
        (place / "README.md").write_text("changed")
    elif change == "a new file":
        (place / "src" / "unisono" / "extra.py").write_text("")
    elif change == "no tag":
        subprocess.run([*here, "tag", "--delete", f"v{NUMBER}"], check=True, capture_output=True)
    else:
        subprocess.run([*here, "commit", "--quiet", "--allow-empty", "-m", "later"], check=True)
    done = make(place)
    assert done.returncode != 0
    assert "clean tree" in done.stderr or f"no tag v{NUMBER}" in done.stderr
    assert not (place / "dist").exists(), "nothing was built"


def test_images_of_several_processors_are_found_through_one_index() -> None:
    made = oci.image({"arm64": b"arm", "amd64": b"amd"}, "1.2.3", {"User": "1"}, {"version": "1"})
    assert made == oci.image({"amd64": b"amd", "arm64": b"arm"}, "1.2.3", {"User": "1"}, {"version": "1"})
    files = layout(made)
    (top,) = json.loads(files["index.json"])["manifests"]
    assert (top["mediaType"], top["digest"]) == (oci.INDEX, oci.digest(made))
    entries = json.loads(blob(files, top))["manifests"]
    assert [entry["platform"] for entry in entries] == [
        {"architecture": "amd64", "os": "linux"},
        {"architecture": "arm64", "os": "linux"},
    ]
    for entry in entries:
        config = json.loads(blob(files, json.loads(blob(files, entry))["config"]))
        assert config["architecture"] == entry["platform"]["architecture"]


def test_the_chart_in_a_registry_is_the_packed_chart() -> None:
    packed, about = release.chart("1.2.3"), yaml.safe_load((release.CHART / "Chart.yaml").read_text())
    made = oci.chart(packed, about, {})
    files = layout(made)
    (top,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(files, top))
    assert manifest["config"]["mediaType"] == "application/vnd.cncf.helm.config.v1+json"
    assert json.loads(blob(files, manifest["config"]))["version"] == about["version"]
    (content,) = manifest["layers"]
    assert content["mediaType"] == "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
    assert blob(files, content) == packed


def test_the_statement_names_each_file_by_its_digest_and_no_time_of_the_build() -> None:
    sums = f"{'a' * 64}  one.whl\n{'b' * 64}  two.tar.gz\n"
    made = provenance.statement(sums, "https://example.com/project", "v1.2.3", "c" * 40, 86_400)
    assert made == provenance.statement(sums, "https://example.com/project", "v1.2.3", "c" * 40, 86_400)
    assert [(one["name"], one["digest"]["sha256"][0]) for one in made["subject"]] == [
        ("one.whl", "a"), ("two.tar.gz", "b"),
    ]  # fmt: skip
    source = made["predicate"]["buildDefinition"]["resolvedDependencies"][0]
    assert source == {
        "uri": "git+https://example.com/project@refs/tags/v1.2.3", "digest": {"gitCommit": "c" * 40}
    }  # fmt: skip
    pytest.importorskip("sigstore")
    from sigstore.dsse import Statement

    Statement(json.dumps(made).encode())  # refuses what cannot be signed


@pytest.mark.more
def test_a_dry_run_builds_everything_twice_the_same(tmp_path: Path) -> None:
    # The image takes minutes for each build; the workflow of releases compares it as well.
    with_image = bool(os.environ.get(IMAGE))
    if shutil.which("npm") is None or (with_image and shutil.which("apt-get") is None):
        pytest.skip("a release needs npm for the dashboard's page and Debian's packages for the image")
    sums = []
    for name in ("first", "second"):
        place = clone(tmp_path / name)
        done = make(place, f"IMAGES={'--images' * with_image}")
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        assert "would run: python -m sigstore sign" in done.stdout
        sums.append((place / "dist" / "SHA256SUMS").read_text())
    assert sums[0] == sums[1]
    dist = tmp_path / "first" / "dist"
    assert {line.split()[1] for line in sums[0].splitlines()} == {
        f"unisono-{NUMBER}-py3-none-any.whl",
        f"unisono-{NUMBER}.tar.gz",
        f"unisono-{NUMBER}.cdx.json",
        f"unisono-chart-{NUMBER}.tgz",
        f"unisono-chart-{NUMBER}.oci.tar",
    } | ({f"unisono-image-{NUMBER}.oci.tar"} if with_image else set())
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=dist, check=True)
    statement = json.loads((dist / "provenance.intoto.json").read_text())
    assert {one["name"] for one in statement["subject"]} == {line.split()[1] for line in sums[0].splitlines()}
    if not with_image:
        return
    files = layout((dist / f"unisono-image-{NUMBER}.oci.tar").read_bytes())
    (top,) = json.loads(files["index.json"])["manifests"]
    machines = {entry["platform"]["architecture"] for entry in json.loads(blob(files, top))["manifests"]}
    assert machines == {"amd64", "arm64"}
