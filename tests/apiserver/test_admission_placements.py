"""Only the hub says where its jobs are; a user may take his own back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.backends import OPTIONS, WriteOptions, job_body, opened, queue_body, value
from support.definitions import crd, define, version, widget
from unisono.api.annotations import CLUSTER, DISPATCH, DIVISION, GANG, MACHINES, PLACES
from unisono.api.keys import MASTERS
from unisono.api.kind_families import BATCH_JOBS
from unisono.api.kinds import JOBS, QUEUES
from unisono.apiserver.access.user import AUTHENTICATED
from unisono.apiserver.backend import Backend
from unisono.errors import ApiError

ALICE = WriteOptions(user="alice", groups=(AUTHENTICATED,))
HUB = WriteOptions(user="system:controllers", groups=(MASTERS,))
PLACED = {CLUSTER: "a", DISPATCH: "3"}


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with opened() as it:
        await it.service.create(QUEUES, None, queue_body("q"), OPTIONS)
        yield it


def body(**marks: str) -> dict[str, Any]:
    found = job_body("j")
    found["metadata"]["namespace"] = "default"
    found["spec"]["queue"] = "default"
    found["metadata"]["annotations"] = marks
    return found


async def marks(backend: Backend) -> dict[str, str]:
    found = value(await backend.service.get(JOBS, "default", "j"))["metadata"].get("annotations") or {}
    return {key: each for key, each in found.items() if key in PLACES}


async def patch(backend: Backend, changes: dict[str, str | None], options: WriteOptions) -> None:
    await backend.service.patch(JOBS, "default", "j", {"metadata": {"annotations": changes}}, "merge", options)


@pytest.mark.parametrize("author", [ALICE, HUB])
async def test_a_new_job_has_no_place(backend: Backend, author: WriteOptions) -> None:
    given = {**dict.fromkeys(PLACES, "{}"), CLUSTER: "b", DISPATCH: "7", "mine": "1"}
    await backend.service.create(JOBS, "default", body(**given), author)
    assert await marks(backend) == {}
    made = value(await backend.service.get(JOBS, "default", "j"))
    assert made["metadata"]["annotations"]["mine"] == "1"


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({CLUSTER: None, DISPATCH: "4"}, {DISPATCH: "4"}),
        ({CLUSTER: None}, PLACED),
        ({CLUSTER: None, DISPATCH: None}, PLACED),
        ({DISPATCH: "999999999"}, PLACED),
        ({CLUSTER: None, DISPATCH: "5"}, PLACED),
        ({GANG: '{"number":1}'}, PLACED),
        ({MACHINES: '{"dispatch":3}'}, PLACED),
        ({CLUSTER: None, DISPATCH: "4", MACHINES: '{"dispatch":4}'}, PLACED),
    ],
)
async def test_a_user_takes_a_job_back_and_no_more(
    backend: Backend, changes: dict[str, str | None], left: dict[str, str]
) -> None:
    await backend.service.create(JOBS, "default", body(), ALICE)
    await patch(backend, dict(PLACED), HUB)
    await patch(backend, changes, ALICE)
    assert await marks(backend) == left


async def test_a_user_sends_no_job_anywhere(backend: Backend) -> None:
    await backend.service.create(JOBS, "default", body(), ALICE)
    with pytest.raises(ApiError, match="the hub chooses the member"):
        await patch(backend, {CLUSTER: "b", DISPATCH: "1"}, ALICE)
    await patch(backend, dict(PLACED), HUB)
    with pytest.raises(ApiError, match="the hub chooses the member"):
        await patch(backend, {CLUSTER: "b", DISPATCH: "4"}, ALICE)
    assert await marks(backend) == PLACED


async def test_a_user_has_replicas_divided_again_and_divides_none(backend: Backend) -> None:
    service = backend.service
    pods = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    meta = {"name": "w", "namespace": "default", "annotations": {DIVISION: '{"closed":1000}'}}
    given = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": {"spec": pods}}}
    await service.create(BATCH_JOBS, "default", given, ALICE)

    async def division(text: str | None, author: WriteOptions) -> str | None:
        change = {"metadata": {"annotations": {DIVISION: text}}}
        await service.patch(BATCH_JOBS, "default", "w", change, "merge", author)
        found = value(await service.get(BATCH_JOBS, "default", "w"))["metadata"].get("annotations") or {}
        return found.get(DIVISION)

    assert await division('{"closed":1000}', ALICE) is None
    assert await division('{"a":1}', HUB) == '{"a":1}'
    assert await division('{"closed":1000}', ALICE) == '{"a":1}'
    assert await division(None, ALICE) is None


async def test_an_object_of_a_kind_that_is_described_later_has_no_place_written_by_hand(backend: Backend) -> None:
    """Whoever writes a table sends what waits, and nothing past the limits of queues."""
    service = backend.service
    status = version(subresources={"status": {}})
    kind = await define(service, crd("widgets", status))
    found = widget("w", {"size": 1})
    found["metadata"]["annotations"] = dict(PLACED)
    await service.create(kind, "default", found, ALICE)

    async def placed() -> Any:
        return value(await service.get(kind, "default", "w"))["metadata"].get("annotations")

    assert await placed() is None
    change = {"metadata": {"annotations": dict(PLACED)}, "status": {"size": 1}}
    await service.patch(kind, "default", "w", change, "merge", ALICE, "status")
    assert await placed() is None
    with pytest.raises(ApiError, match="the hub chooses the member"):
        await service.patch(kind, "default", "w", change, "merge", ALICE)
