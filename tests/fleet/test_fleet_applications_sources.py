"""Sources of Applications: what is run for Git and Helm, what kustomize builds, and what is refused."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from unisono.api.decode import decode
from unisono.api.groups.fleet import Application, KustomizationPolicy
from unisono.api.kind_families import APPLICATIONS
from unisono.errors import ConfigError
from unisono.fleet.applications import programs, rendering
from unisono.fleet.applications.rendering import render

QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}
GIT = {"url": "https://example.com/x.git", "interval": "5m"}
CHARTS = {"url": "https://charts.example.com", "interval": "5m"}

needs_kustomize = pytest.mark.skipif(
    not (shutil.which("kustomize") or shutil.which("kubectl")), reason="neither kustomize nor kubectl is installed"
)


class Runs:
    """Stands for the programs: notes what is run, makes the files of a clone, and prints a text."""

    def __init__(self, files: dict[str, Any] | None = None, printed: str = "") -> None:
        self.commands: list[list[str]] = []
        self.files, self.printed = files or {}, printed
        self.values: Any = None

    async def __call__(self, command: Sequence[str], folder: Path, seconds: float) -> bytes:
        self.commands.append([Path(command[0]).name, *command[1:]])
        if "clone" in command:
            write(folder / "source", self.files)
        elif "kustomize" in command or "build" in command:
            return await programs.run(command, folder, seconds)
        for word in command:
            if word.startswith("--values="):
                self.values = json.loads(Path(word.removeprefix("--values=")).read_text())
        return self.printed.encode()


def write(root: Path, files: dict[str, Any]) -> None:
    for path, value in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(value if isinstance(value, str) else yaml.safe_dump(value))


def application(policy: dict[str, Any], **source: Any) -> Application:
    spec = {"source": source, "syncPolicies": [policy], "destination": {"fleet": "f"}}
    return decode(APPLICATIONS, {"metadata": {"name": "app", "namespace": "fleets"}, "spec": spec}).obj


def folder(**more: Any) -> dict[str, Any]:
    return {"kustomization": {"interval": "5m", "prune": True, **more}}


def chart(name: str = "redis", **more: Any) -> dict[str, Any]:
    return {"helm": {"interval": "5m", "chart": {"spec": {"chart": name, **more.pop("spec", {})}}, **more}}


@pytest.fixture
def programs_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    real = programs.find

    def find(*names: str) -> str | None:
        return f"/usr/bin/{names[0]}" if names[0] in ("git", "helm") else real(*names)

    monkeypatch.setattr(programs, "find", find)


async def test_inline_manifests_are_taken_as_they_are() -> None:
    assert await render(application({}, manifests=[QUEUE]), 0, Runs()) == [QUEUE]


@needs_kustomize
async def test_inline_manifests_are_patched() -> None:
    patches = [{"target": {"kind": "Queue"}, "patch": '[{"op":"add","path":"/spec","value":{"weight":7}}]'}]
    found = await render(application(folder(patches=patches), manifests=[QUEUE]), 0)
    assert found == [{**QUEUE, "spec": {"weight": 7}}]


@pytest.mark.usefixtures("programs_are_there")
async def test_a_folder_of_git_without_a_kustomization_is_all_its_manifests() -> None:
    files = {
        "queues/a.yaml": QUEUE,
        "queues/deep/b.json": json.dumps(QUEUE),
        "other/c.yaml": QUEUE,
        "queues/x.txt": "x",
    }
    runs = Runs(files)
    found = await render(application(folder(path="./queues"), gitRepository={**GIT, "ref": {"branch": "v1"}}), 0, runs)
    assert found == [QUEUE, QUEUE]
    options = ["--quiet", "--depth=1", "--single-branch", "--branch=v1"]
    assert runs.commands == [["git", "clone", *options, "--", GIT["url"], "source"]]


@needs_kustomize
@pytest.mark.usefixtures("programs_are_there")
async def test_a_kustomization_of_git_is_built_with_what_the_policy_adds() -> None:
    files = {
        "base/kustomization.yaml": {"resources": ["q.yaml"]},
        "base/q.yaml": QUEUE,
        "prod/kustomization.yaml": {"resources": ["../base"], "nameSuffix": "-prod"},
    }
    found = await render(application(folder(path="prod"), gitRepository=GIT), 0, Runs(files))
    assert [each["metadata"]["name"] for each in found] == ["q-prod"]
    patches = [{"target": {"kind": "Queue"}, "patch": '[{"op":"add","path":"/spec","value":{"weight":7}}]'}]
    found = await render(application(folder(path="prod", patches=patches), gitRepository=GIT), 0, Runs(files))
    assert found == [{**QUEUE, "metadata": {"name": "q-prod"}, "spec": {"weight": 7}}]


@pytest.mark.usefixtures("programs_are_there")
@pytest.mark.parametrize(
    ("policy", "source", "message"),
    [
        (folder(), {"gitRepository": {**GIT, "url": "file:///etc"}}, "must begin with https://"),
        (folder(), {"gitRepository": {**GIT, "url": "ext::sh -c id"}}, "must begin with https://"),
        (folder(), {"gitRepository": {**GIT, "secretRef": {"name": "x"}}}, "secretRef is not supported"),
        (folder(), {"gitRepository": {**GIT, "ref": {"semver": "1.x"}}}, "ref.semver is not supported"),
        (folder(), {"gitRepository": {**GIT, "ref": {"branch": "--upload-pack=x"}}}, "is no name"),
        (folder(), {"gitRepository": {**GIT, "ref": {"commit": "HEAD"}}}, "hexadecimal"),
        (folder(path="../.."), {"gitRepository": GIT}, "leads out of the source"),
        (folder(path="absent"), {"gitRepository": GIT}, 'no folder "absent"'),
        (folder(), {"ociRepository": {"url": "oci://x", "interval": "5m"}}, "ociRepository is not supported"),
        (chart(), {"gitRepository": GIT}, "charts from Git are not supported"),
        (chart("../x"), {"helmRepository": CHARTS}, "is no name"),
        (chart("--post-renderer=x"), {"helmRepository": CHARTS}, "is no name"),
        (chart(releaseName="-x"), {"helmRepository": CHARTS}, "is no name"),
        (chart(spec={"version": "--x"}), {"helmRepository": CHARTS}, "is no version"),
        (
            chart(valuesFrom=[{"kind": "Secret", "name": "x"}]),
            {"helmRepository": CHARTS},
            "valuesFrom is not supported",
        ),
        (chart(), {"helmRepository": {**CHARTS, "url": "file:///tmp"}}, "must begin with https:// or http://"),
    ],
)
async def test_what_is_refused(policy: dict[str, Any], source: dict[str, Any], message: str) -> None:
    runs = Runs({"a.yaml": QUEUE})
    with pytest.raises(ConfigError, match=message):
        await render(application(policy, **source), 0, runs)


@pytest.mark.usefixtures("programs_are_there")
async def test_a_chart_is_rendered_without_a_cluster() -> None:
    runs = Runs(printed=yaml.safe_dump_all([QUEUE, QUEUE]))
    policy = chart(spec={"version": "1.2.3"}, values={"a": {"b": 1}}, releaseName="r", targetNamespace="ns")
    assert await render(application(policy, helmRepository=CHARTS), 0, runs) == [QUEUE, QUEUE]
    command = [word for word in runs.commands[0] if not word.startswith("--values=")]
    expected = ["helm", "template", "r", "redis", "--repo=https://charts.example.com", "--namespace=ns", "--skip-tests"]
    assert command == [*expected, "--version=1.2.3", "--include-crds"]
    assert runs.values == {"a": {"b": 1}}
    policy = chart(install={"crds": "Skip", "disableHooks": True})
    await render(application(policy, helmRepository={**CHARTS, "type": "oci", "url": "oci://reg/charts"}), 0, runs)
    assert runs.commands[1][:4] == ["helm", "template", "app", "oci://reg/charts/redis"]
    assert runs.commands[1][-1] == "--no-hooks"


def _nothing(*_names: str) -> str | None:
    return None


async def test_a_missing_helm_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find", _nothing)
    with pytest.raises(ConfigError, match="chart redis: helm is not installed where the hub runs"):
        await render(application(chart(), helmRepository=CHARTS), 0, Runs())


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ({"resources": ["https://example.com/x.yaml"]}, "nothing is fetched from elsewhere"),
        ({"resources": ["github.com/a/b//c?ref=v1"]}, "nothing is fetched from elsewhere"),
        ({"components": ["../../outside"]}, "nothing is fetched from elsewhere"),
        ({"resources": ["inner"]}, "nothing is fetched from elsewhere"),
        ({"helmCharts": [{"name": "x"}]}, "charts within a kustomization are not built"),
    ],
)
async def test_kustomize_fetches_nothing(tmp_path: Path, file: dict[str, Any], message: str) -> None:
    root = tmp_path / "source"
    write(root, {"kustomization.yaml": file, "inner/kustomization.yml": {"resources": ["git@example.com:x/y"]}})
    (tmp_path / "outside").mkdir()
    with pytest.raises(ConfigError, match=message):
        await rendering.build(root, KustomizationPolicy(), Runs(), 10)


async def test_links_that_lead_out_of_the_source_are_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "source"
    write(root, {"a.yaml": QUEUE})
    secret = tmp_path / "secret.yaml"
    secret.write_text(yaml.safe_dump({**QUEUE, "metadata": {"name": "secret"}}))
    (root / "link.yaml").symlink_to(secret)
    (root / "folder").symlink_to(tmp_path)
    assert await rendering.build(root, KustomizationPolicy(), Runs(), 10) == [QUEUE]
    with pytest.raises(ConfigError, match="leads out"):
        await rendering.build(root, KustomizationPolicy(path="folder"), Runs(), 10)


# ---- programs


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; print('first'); sys.exit('no such chart')", "failed: no such chart"),
        ("import sys; sys.exit(3)", "failed: it ended with 3"),
        ("import time; time.sleep(60)", "did not end within 1 seconds"),
        ("print('x' * (33 * 1024 ** 2))", "printed more than 32 MiB"),
    ],
)
async def test_programs_that_fail_are_told(tmp_path: Path, code: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await programs.run([sys.executable, "-c", code], tmp_path, 1.0 if "sleep" in code else 60.0)


async def test_programs_get_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("KUBECONFIG", "/root/.kube/config")
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    found = json.loads(await programs.run([sys.executable, "-c", code], tmp_path, 60.0))
    assert "AWS_SECRET_ACCESS_KEY" not in found
    assert (found["KUBECONFIG"], found["HOME"], found["GIT_ALLOW_PROTOCOL"]) == ("/dev/null", str(tmp_path), "https")
