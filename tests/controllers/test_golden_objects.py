"""Objects that the controllers create for manifests as users write them, as files that a reader can check.

``python tests/controllers/test_golden_objects.py`` writes the files again; look at the difference before committing it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent)]

from job_world import World  # noqa: E402

from unisono.api.decode import decode  # noqa: E402
from unisono.api.defaulting import apply_defaults  # noqa: E402
from unisono.api.kinds import (  # noqa: E402
    CONFIG_MAPS,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_GROUPS,
    PODS,
    SECRETS,
    SERVICES,
    find,
)
from unisono.api.validation import validate  # noqa: E402
from unisono.api.yaml import load_all  # noqa: E402
from unisono.controllers.objects import to_json  # noqa: E402

CREATED = (POD_GROUPS, CONFIG_MAPS, SECRETS, SERVICES, NETWORK_POLICIES, PERSISTENT_VOLUME_CLAIMS, PODS)
MANIFESTS = sorted(path.stem for path in (GOLDEN / "manifests").glob("*.yaml"))
# Of every task the first pods and the last one are shown: the others differ in their number only.
_SHOWN = 2
# Written by the server, or different each time.
_OMITTED = ("uid", "resourceVersion", "creationTimestamp", "generation")
_SECRET = "<made once>"


def test_there_are_manifests() -> None:
    assert len(MANIFESTS) >= 7


@pytest.mark.parametrize("name", MANIFESTS)
def test_created_objects(name: str) -> None:
    assert asyncio.run(created(name)) == (GOLDEN / f"{name}.yaml").read_text()


async def created(name: str) -> str:
    """All objects that the controllers make for the manifest, as YAML, in a fixed order."""
    async with World() as world:
        for document in load_all((GOLDEN / "manifests" / f"{name}.yaml").read_bytes(), name):
            kind = find(document.value["apiVersion"], document.value["kind"])
            assert kind is not None
            decoded = decode(kind, document.value)
            assert (decoded.unknown_fields, decoded.type_errors) == ([], [])
            decoded.obj.metadata.namespace = "default" if kind.namespaced else None
            apply_defaults(kind, decoded.obj)
            assert validate(kind, decoded.obj) == []
            await world.client.create(kind, decoded.obj)
        given = {obj.metadata.uid for obj in world.client.objects(POD_GROUPS)}
        await world.settle()
        for group in world.client.objects(POD_GROUPS):
            group.status.phase = "Inqueue"
            world.client.put(POD_GROUPS, group)
        await world.settle()
        uids: dict[str, str] = {}
        documents = []
        for kind in CREATED:
            objects = [obj for obj in world.client.objects(kind) if obj.metadata.uid not in given]
            for obj in _few(objects) if kind is PODS else objects:
                value = {"apiVersion": kind.api_version, "kind": kind.kind, **to_json(obj)}
                documents.append(_stable(value, uids))
        text = yaml.safe_dump_all(documents, sort_keys=False, width=110)
        for uid, word in uids.items():
            text = text.replace(uid, word)
        return text


def _few(pods: list[Any]) -> list[Any]:
    """The first pods and the last one of each task."""
    tasks: dict[str, list[Any]] = {}
    for pod in pods:
        tasks.setdefault(pod.metadata.name.rpartition("-")[0], []).append(pod)
    shown: list[Any] = []
    for mine in tasks.values():
        mine.sort(key=lambda pod: int(pod.metadata.name.rpartition("-")[2]))
        shown += mine if len(mine) <= _SHOWN + 1 else [*mine[:_SHOWN], mine[-1]]
    return shown


def _stable(value: dict[str, Any], uids: dict[str, str]) -> dict[str, Any]:
    """Without what differs from run to run; the owner's UID becomes a word."""
    meta = value["metadata"]
    for key in _OMITTED:
        meta.pop(key, None)
    for owner in meta.get("ownerReferences", ()):
        uids.setdefault(owner["uid"], "OWNER-UID")
    if value["kind"] == "Secret":
        value["data"] = {key: text if key == "config" else _SECRET for key, text in value["data"].items()}
    value.pop("status", None)
    return value


if __name__ == "__main__":
    for each in MANIFESTS:
        (GOLDEN / f"{each}.yaml").write_text(asyncio.run(created(each)))
