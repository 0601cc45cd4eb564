"""Git sources of Applications that try to write, read or fetch beyond their own folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from unisono.api.groups.fleet import KustomizationPolicy
from unisono.errors import ConfigError
from unisono.fleet.applications import programs, rendering

QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}
PATCHES = [{"target": {"kind": "Queue"}, "patch": '[{"op":"add","path":"/spec","value":{"weight":7}}]'}]
PATCHED = [{**QUEUE, "spec": {"weight": 7}}]

needs_kustomize = pytest.mark.skipif(
    not (shutil.which("kustomize") or shutil.which("kubectl")), reason="neither kustomize nor kubectl is installed"
)


def source(tmp_path: Path, files: dict[str, Any]) -> Path:
    root = tmp_path / "work" / "source"
    for path, value in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(yaml.safe_dump(value))
    return root


@needs_kustomize
@pytest.mark.parametrize(
    ("files", "link"),
    [
        pytest.param({"a.yaml": QUEUE}, "unisono-objects.json", id="objects"),
        pytest.param({"a.yaml": QUEUE}, "kustomization.yaml", id="kustomization of the root"),
        pytest.param(
            {"kustomization.yaml": {"resources": ["a.yaml"]}, "a.yaml": QUEUE},
            ".unisono-wrapper/kustomization.yaml",
            id="wrapper",
        ),
    ],
)
async def test_a_link_of_the_source_has_nothing_written_elsewhere(
    tmp_path: Path, files: dict[str, Any], link: str
) -> None:
    root, victim = source(tmp_path, files), tmp_path / "victim"
    (root / link).parent.mkdir(exist_ok=True)
    (root / link).symlink_to(victim)
    assert await rendering.build(root, KustomizationPolicy(patches=PATCHES), programs.run, 30) == PATCHED
    assert not victim.exists()


@pytest.mark.parametrize(
    ("file", "message"),
    [
        # kustomize reads its fields in any case.
        ({"Resources": ["https://example.com/x.yaml"]}, "nothing is fetched from elsewhere"),
        ({"rEsources": ["../../outside"]}, "nothing is fetched from elsewhere"),
        ({"HelmCharts": [{"name": "x"}]}, "charts within a kustomization are not built"),
        ({"patches": [{"path": "http://127.0.0.1:1/x"}]}, "nothing is fetched from elsewhere"),
        ({"patchesStrategicMerge": ["http://127.0.0.1:1/x"]}, "nothing is fetched from elsewhere"),
        ({"configMapGenerator": [{"name": "x", "Files": ["k=http://127.0.0.1:1/"]}]}, "nothing is fetched"),
        ({"secretGenerator": [{"name": "x", "envs": ["http://127.0.0.1:1/"]}]}, "nothing is fetched"),
        ({"replacements": [{"path": "http://127.0.0.1:1/"}]}, "nothing is fetched from elsewhere"),
        ({"generators": ["kind: ConfigMapGenerator\nfiles: [http://127.0.0.1:1/]\n"]}, "nothing is fetched"),
        ({"transformers": ["g.yaml"]}, "nothing is fetched from elsewhere"),
        ({"resources": 5}, "resources must be a list"),
        ({"resources": ["a\0b"]}, "nothing is fetched from elsewhere"),
        ([1], "is no kustomization"),
        ("text", "is no kustomization"),
    ],
)
async def test_no_kustomization_fetches(tmp_path: Path, file: Any, message: str) -> None:
    root = source(tmp_path, {"kustomization.yaml": file, "g.yaml": {"kind": "PatchTransformer", "path": "http://x/"}})
    (tmp_path / "work" / "outside").mkdir()
    with pytest.raises(ConfigError, match=message):
        await rendering.build(root, KustomizationPolicy(), _never, 10)


async def test_a_kustomization_that_is_a_link_out_of_the_source_is_not_read(tmp_path: Path) -> None:
    root, secret = source(tmp_path, {"a.yaml": QUEUE}), tmp_path / "secret"
    secret.write_text("password: [")
    (root / "kustomization.yaml").symlink_to(secret)
    with pytest.raises(ConfigError, match="leads out of the source"):
        await rendering.build(root, KustomizationPolicy(), _never, 10)


async def test_addresses_in_texts_that_nothing_fetches_are_fine(tmp_path: Path) -> None:
    file = {
        "commonAnnotations": {"docs": "https://example.com"},
        "patches": [{"patch": "metadata: {annotations: {docs: 'https://example.com'}}"}],
        "patchesStrategicMerge": ["kind: Queue\nmetadata: {annotations: {docs: 'https://example.com'}}\n"],
    }
    found = await rendering.build(source(tmp_path, {"kustomization.yaml": file}), KustomizationPolicy(), _printing, 10)
    assert found == [QUEUE]


async def test_too_large_a_folder_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MOST_BYTES", 100)
    root = source(tmp_path, {f"{number}.yaml": QUEUE for number in range(2)})
    with pytest.raises(ConfigError, match="name a smaller path"):
        await rendering.build(root, KustomizationPolicy(), _never, 10)


def test_kustomize_has_no_way_to_the_network_and_no_home_in_the_source(tmp_path: Path) -> None:
    for program in ("kustomize", "kubectl"):
        assert programs.environment(program, tmp_path)["HTTPS_PROXY"] == programs.NO_WAY
        assert programs.environment(program, tmp_path)["GIT_ALLOW_PROTOCOL"] == "none"
    assert programs.environment("git", tmp_path)["GIT_ALLOW_PROTOCOL"] == "https"


@needs_kustomize
async def test_programs_run_outside_the_source(tmp_path: Path) -> None:
    root = source(tmp_path, {"kustomization.yaml": {"resources": ["a.yaml"]}, "a.yaml": QUEUE})
    seen = []

    async def run(command: Sequence[str], folder: Path, seconds: float) -> bytes:
        seen.append(folder)
        return await programs.run(command, folder, seconds)

    assert await rendering.build(root, KustomizationPolicy(), run, 30) == [QUEUE]
    assert await rendering.build(root, KustomizationPolicy(patches=PATCHES), run, 30) == PATCHED
    assert not any(folder.is_relative_to(root) for folder in seen)


async def _never(command: Sequence[str], folder: Path, seconds: float) -> bytes:
    raise AssertionError(f"{command} was run")


async def _printing(command: Sequence[str], folder: Path, seconds: float) -> bytes:
    return json.dumps(QUEUE).encode()
