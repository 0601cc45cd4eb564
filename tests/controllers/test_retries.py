"""After which changes what the server refused is tried again."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.annotations import USE, USER_LIMITS
from unisono.api.base import Object, ObjectMeta
from unisono.api.core.cluster import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus
from unisono.api.groups.scheduling import Queue, QueueSpec, QueueStatus
from unisono.api.kinds import QUEUES, RESOURCE_QUOTAS
from unisono.controllers.execution import RETRIES


def queue(state: str = "Open", running: int = 0, notes: dict[str, str] | None = None, **spec: Any) -> Queue:
    meta, status = ObjectMeta(name="q", annotations=notes), QueueStatus(state=state, running=running)
    return Queue(metadata=meta, spec=QueueSpec(**spec), status=status)


def quota(hard: str, used: str) -> ResourceQuota:
    meta, spec = ObjectMeta(name="q", namespace="ns"), ResourceQuotaSpec(hard={"pods": hard})
    return ResourceQuota(metadata=meta, spec=spec, status=ResourceQuotaStatus(used={"pods": used}))


CHANGES = {
    "a queue was opened": (queue("Closed"), queue(), True),
    "a queue takes more": (queue(capability={"cpu": "1"}), queue(capability={"cpu": "2"}), True),
    "a queue lets users have more": (queue(notes={USER_LIMITS: "jobs=1"}), queue(notes={USER_LIMITS: "jobs=2"}), True),
    "pods of a queue run": (queue(), queue(running=3), False),
    "what users have used of a queue is noted": (queue(notes={USE: "{}"}), queue(notes={USE: '{"ann":1}'}), False),
    "a quota is larger": (quota("1", "1"), quota("2", "1"), True),
    "more of a quota is left": (quota("2", "2"), quota("2", "1"), True),
    "less of a quota is left": (quota("2", "1"), quota("2", "2"), False),
}


@pytest.mark.parametrize(("before", "after", "expected"), CHANGES.values(), ids=CHANGES)
def test_what_was_refused_is_tried_again_after_changes_that_may_allow_it(
    before: Object, after: Object, expected: bool
) -> None:
    kind = QUEUES if isinstance(after, Queue) else RESOURCE_QUOTAS
    assert any(one.when("MODIFIED", after, before) for one in RETRIES if one.kind is kind) is expected
