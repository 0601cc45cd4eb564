"""kubectl sees the same answers as from a real API server, but for the differences that the documentation lists."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.kubectl import Plane
from support.plane import REPOSITORY
from support.transcript import files
from support.transcript.compare import differences
from support.transcript.known import known
from support.transcript.playing import Player
from support.transcript.proxy import recording
from support.transcript.script import TRANSCRIPTS, Scene, scenes
from unisono.kube import kubeconfig

pytestmark = pytest.mark.kubectl
# These take long: they are played by ``make test-more``.
LONG = ("access", "definitions", "information", "workloads")

RECORD = "record the transcripts again: docs/kubernetes-compatibility.md says how"


@pytest.mark.parametrize(
    "scene", [pytest.param(one, id=one.name, marks=[pytest.mark.more] * (one.name in LONG)) for one in scenes()]
)
async def test_a_scene_goes_as_on_a_real_server(scene: Scene, plane: Plane, tmp_path: Path) -> None:
    versions, real = files.read(TRANSCRIPTS / f"{scene.name}.jsonl")
    assert [step.name for step in scene.steps] == [step["run"] for step in real], RECORD
    async with recording(kubeconfig.load(plane.server.kubeconfig_path)) as recorder:
        player = Player(recorder, tmp_path, plane.binary)
        client = json.loads((await player.kubectl("version", "--client", "-o", "json"))[1])["clientVersion"]
        if client["gitVersion"].split(".")[:2] != versions["kubectl"].split(".")[:2]:
            message = f"the transcripts are of kubectl {versions['kubectl']}, here is {client['gitVersion']}: {RECORD}"
            if os.environ.get("CI"):
                pytest.fail(message)
            pytest.skip(message)
        await player.whoami()
        here = await player.play(scene)
    listed = [one for one in known() if scene.name in one.scenes]
    found = differences(real, here)
    unlisted = [line for line in found if not any(one.covers(line) for one in listed)]
    assert not unlisted, "differences that nothing lists:\n" + "\n".join(unlisted)
    gone = [pattern.pattern for one in listed for pattern in one.patterns if not any(map(pattern.search, found))]
    assert not gone, f"differences that are listed for {scene.name}, and gone: {gone}"


def test_every_scene_has_a_transcript_and_every_transcript_a_scene() -> None:
    assert sorted(path.stem for path in TRANSCRIPTS.glob("*.jsonl")) == [scene.name for scene in scenes()]


def test_differences_are_listed_for_scenes_that_exist() -> None:
    names = {scene.name for scene in scenes()}
    assert [one.text for one in known() if not set(one.scenes) <= names or not one.patterns] == []


def test_the_documentation_lists_the_same_differences() -> None:
    page = (REPOSITORY / "docs" / "kubernetes-compatibility.md").read_text()
    listed = page.split("<!-- differences: begin -->")[1].split("<!-- differences: end -->")[0]
    told = [" ".join(entry.split()) for entry in listed.split("\n- ")[1:]]
    assert told == list(dict.fromkeys(one.text for one in known()))
