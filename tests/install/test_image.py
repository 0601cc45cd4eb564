"""The container image that is assembled without an engine: a layout that engines can load, the same each time."""

from __future__ import annotations

import compileall
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from importlib import import_module
from pathlib import Path
from typing import Any

from support.plane import REPOSITORY

sys.path.append(str(REPOSITORY / "scripts"))
builder: Any = import_module("image")


def tree(folder: Path, time: int) -> Path:
    root = folder / str(time)
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/tool").write_text("#!/bin/sh\n")
    (root / "usr/bin/tool").chmod(0o755)
    (root / "bin").symlink_to("usr/bin")
    os.utime(root / "usr/bin/tool", (time, time))
    return root


def test_a_layer_tells_nothing_of_who_made_it_and_when(tmp_path: Path) -> None:
    first, second = (builder.layer(tree(tmp_path, time)) for time in (1_000, 2_000))
    assert first == second
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        tool = archive.getmember("usr/bin/tool")
        assert (tool.mode, tool.uid, tool.uname) == (0o755, 0, "")
        assert archive.getmember("bin").linkname == "usr/bin"


def test_every_part_of_the_layout_is_found_by_its_digest(tmp_path: Path) -> None:
    layer = builder.layer(tree(tmp_path, 1))
    with tarfile.open(fileobj=io.BytesIO(builder.image({"amd64": layer}, "1.2.3"))) as archive:
        files = {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]

    def blob(described: dict[str, Any]) -> bytes:
        content = files["blobs/" + described["digest"].replace(":", "/")]
        assert len(content) == described["size"]
        assert described["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
        return content

    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"]["org.opencontainers.image.ref.name"] == "1.2.3"
    manifest = json.loads(blob(entry))
    config = json.loads(blob(manifest["config"]))
    assert gzip.decompress(blob(manifest["layers"][0])) == layer
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert (config["config"]["User"], config["config"]["Entrypoint"]) == ("65532:65532", ["unisono"])


def test_modules_without_their_source_are_found_by_python(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "inner" / "__init__.py").write_text("ANSWER = 42\n")
    (package / "data.txt").write_text("kept")
    compileall.compile_dir(package, quiet=1)
    builder.sourceless(package)
    names = sorted(str(path.relative_to(package)) for path in package.rglob("*") if path.is_file())
    assert names == ["__init__.pyc", "data.txt", "inner/__init__.pyc"]
    words = [sys.executable, "-c", "import package.inner as one; print(one.ANSWER)"]
    assert subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout == "42\n"


def test_files_that_name_a_folder_of_the_machine_that_builds_are_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "clean.pyc").write_bytes(b"/usr/lib/python3.11/a.py")
    (tmp_path / "a" / "dirty.pyc").write_bytes(b"\0/build/x-1/usr/lib/python3.11/a.py")
    (tmp_path / "link").symlink_to("/build/x-1")
    assert builder.traces(tmp_path, ("/build/x-1",)) == ["a/dirty.pyc"]
