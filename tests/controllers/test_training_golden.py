"""Objects made for whole training jobs, compared with files that were read against the operators' behaviour.

To write the files again after a wanted change: ``UNISONO_WRITE_GOLDEN=1 pytest -k golden tests/controllers``,
and read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from training_world import TrainingWorld

from unisono.api.kinds import CONFIG_MAPS, POD_GROUPS, PODS, SECRETS, SERVICES

FOLDER = Path(__file__).parent / "golden_training"
NAMES = sorted(path.name.removesuffix(".in.yaml") for path in FOLDER.glob("*.in.yaml"))
SERVER_FIELDS = ("uid", "resourceVersion", "generation", "creationTimestamp")


def plain(obj: Any) -> dict[str, Any]:
    """The object without what the server or chance decided."""
    value: dict[str, Any] = msgspec.to_builtins(obj)
    for field in SERVER_FIELDS:
        value["metadata"].pop(field, None)
    for owner in value["metadata"].get("ownerReferences", ()):
        owner.pop("uid")
    value.pop("status", None)
    value["metadata"].get("annotations", {}).pop("jobset.sigs.k8s.io/jobset-uid", None)
    marks = value["metadata"].get("labels", {})
    if marks.pop("jobset.sigs.k8s.io/jobset-uid", None) or (value["kind"] == "Pod" and "ray.io/cluster" in marks):
        # The last letters of the name come from the uid.
        value["metadata"]["name"] = value["metadata"]["name"].rpartition("-")[0]
    if value["kind"] == "Secret":
        value["data"] = sorted(value["data"])
    return value


async def made_for(job: dict[str, Any]) -> list[dict[str, Any]]:
    job["metadata"].setdefault("namespace", "ns")
    async with TrainingWorld() as world:
        kinds = (POD_GROUPS, CONFIG_MAPS, SECRETS, SERVICES, PODS)
        world.namespace = job["metadata"]["namespace"]
        await world.submit(job)
        await world.admit(f"ray-{world.name}-pg")
        return [plain(obj) for kind in kinds for obj in world.client.objects(kind)]


@pytest.mark.parametrize("name", NAMES)
async def test_objects_of(name: str) -> None:
    job = yaml.safe_load((FOLDER / f"{name}.in.yaml").read_text())
    made = await made_for(job)
    file = FOLDER / f"{name}.yaml"
    if os.environ.get("UNISONO_WRITE_GOLDEN"):
        file.write_text(yaml.safe_dump_all(made, sort_keys=False, width=120))
    assert made == list(yaml.safe_load_all(file.read_text()))
