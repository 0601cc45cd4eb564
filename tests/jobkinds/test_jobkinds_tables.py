"""Kinds that other people describe: by an installed package, and by an annotation on a definition."""

from __future__ import annotations

import importlib.metadata
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from support.backends import OPTIONS, namespace_body, opened, queue_body, value
from support.definitions import crd
from unisono.api.annotations import ADMITTED_QUEUES, JOB_KIND, USER
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, QUEUES
from unisono.apiserver.access.user import AUTHENTICATED
from unisono.apiserver.backend import Backend
from unisono.apiserver.types import WriteOptions
from unisono.errors import ApiError
from unisono.jobkinds import registry
from unisono.jobkinds.tables import BadTable, Table, kinds_of, read_table

OWNER = WriteOptions(user="owner", groups=(AUTHENTICATED,))
OTHER = WriteOptions(user="other", groups=(AUTHENTICATED,))
SWARM: dict[str, Any] = {
    "pods": [
        {"role": "leader", "template": "spec.leader"},
        {"role": "helper", "template": "spec.helper", "count": "spec.helpers", "later": True},
    ],
    "queues": ["spec.where.queue"],
    "suspend": {"path": "spec.hold", "value": "yes", "otherwise": "no"},
    "ended": {"path": "status.phase", "phases": {"Completed": ["Done"], "Failed": ["Broken"]}},
}
NAMES = {"group": "example.com", "version": "v1", "kind": "Swarm", "plural": "swarms"}


def swarm(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Swarm", "metadata": {"name": "s"}, "spec": spec}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pods: 3", "Expected `array`"),
        ("[]", "no mapping"),
        ("pods: [", "table:2: did not find"),
        ("colour: red", "unknown field `colour`"),
        ("queues: ['spec..x']", "is no path"),
        ("queues: ['spec[0].x y']", "is no path"),
        (f"queues: [{'.'.join(['a'] * 30)}]", "is no path"),
        (f"queues: [{', '.join(f'a{number}' for number in range(99))}]", "more than 64 entries"),
        ("makes: [secrets]", "secrets is no resource that is known to have pods"),
        ("ended: {path: status.phase, phases: {Happy: [x]}}", "Happy is none of Completed"),
        ("suspend: {path: 'spec.parts[*].suspend'}", "one field"),
        ("pods: [{role: a, default: -1}]", "must be 0 to"),
        ("# " + "x" * 20_000, "longer than"),
    ],
)
def test_a_table_that_cannot_be_used_is_told_in_one_sentence(text: str, why: str) -> None:
    with pytest.raises(BadTable) as error:
        read_table(text, **NAMES).job_kind()
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_one_bad_table_is_named_and_the_rest_goes_on() -> None:
    good = read_table({**SWARM, "makes": ["broods.example.com"]}, **NAMES)
    brood = Table(group="example.com", version="v1", kind="Brood", plural="broods")
    bad = Table(group="example.com", version="v1", kind="Bad", plural="bads", makes=["nothing.at.all"])
    found, wrong = kinds_of({"swarm": good, "bad": bad, "brood": brood})
    assert [each.kind.kind for each in found] == ["Swarm", "Brood"]
    assert [kind.kind for kind in found[0].makes] == ["Brood"]
    assert list(wrong) == ["bad"]


@dataclass
class Entry:
    """An entry point of an installed package."""

    name: str
    given: Any

    def load(self) -> Any:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Entry]]:
    entries: list[Entry] = []
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: entries if group == registry.GROUP else [])
    registry._installed.cache_clear()
    registry.known.cache_clear()
    yield entries
    monkeypatch.undo()
    registry._installed.cache_clear()
    registry.known.cache_clear()


def test_an_installed_package_describes_kinds(packages: list[Entry]) -> None:
    packages += [
        Entry("swarm", [{**SWARM, **NAMES}]),
        Entry("text", "{group: example.com, version: v1, kind: Brood, plural: broods, queues: [spec.queue]}"),
        Entry("broken", ImportError("no module")),
        Entry("wrong", {"kind": "X"}),
        # What this package knows is not for others to say.
        Entry("taken", {"group": "ray.io", "version": "v1", "kind": "RayJob", "plural": "rayjobs", "queues": ["x"]}),
    ]
    obj = swarm(helpers=4, where={"queue": "gold"})
    kind = registry.job_kind_of(obj)
    assert kind is not None
    assert (kind.queues_of(obj), kind.pods_of(obj)) == (["gold"], 5)
    assert kind.suspended(True) == {"spec": {"hold": "yes"}}
    assert not registry.has_ended(obj)
    assert registry.state_of({**obj, "status": {"phase": "Broken"}})[0] == "Failed"
    assert registry.of_resource("broods.example.com") is not None
    rayjob = registry.of_resource("rayjobs.ray.io")
    assert rayjob is not None
    assert rayjob.queues != ("x",)
    assert registry.set_aside().keys() == {"broken", "wrong[0]"}
    assert [each.kind.kind for each in registry.foreign()][-2:] == ["Swarm", "Brood"]


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with opened() as it:
        await it.service.create(NAMESPACES, None, namespace_body("team"), OPTIONS)
        body = queue_body("gold")
        body["metadata"]["annotations"] = {"unisono.io/users": "owner"}
        await it.service.create(QUEUES, None, body, OPTIONS)
        yield it


async def define(backend: Backend, table: Any) -> list[str]:
    made = crd("swarms", kind="Swarm")
    made["metadata"]["annotations"] = {JOB_KIND: table}
    return list((await backend.service.create(CUSTOM_RESOURCE_DEFINITIONS, None, made, OPTIONS)).warnings)


async def create(backend: Backend, body: dict[str, Any], options: WriteOptions) -> dict[str, Any]:
    kind = next(each for each in backend.service.context.custom.served() if each.kind == "Swarm")
    return value((await backend.service.create(kind, "team", body, options)).object)


async def test_admission_holds_what_a_definition_says_of_queues_and_sizes(backend: Backend) -> None:
    table = str({**SWARM, "pods": [{**SWARM["pods"][0]}, {**SWARM["pods"][1], "later": True}]}).replace("True", "true")
    assert await define(backend, table) == []
    with pytest.raises(ApiError, match=r'spec\.where\.queue: queue gold is not for user "other"') as error:
        await create(backend, swarm(where={"queue": "gold"}), OTHER)
    assert error.value.code == 403
    noted = swarm(leader={"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "gold"}}})
    with pytest.raises(ApiError, match="queue gold is not for user"):
        await create(backend, noted, OTHER)
    made = await create(backend, swarm(where={"queue": "gold"}), OWNER)
    assert made["metadata"]["annotations"] == {ADMITTED_QUEUES: "gold", USER: "owner"}
    with pytest.raises(ApiError, match="asks for 1000001 pods"):
        await create(backend, {**swarm(helpers=10**12), "metadata": {"name": "large"}}, OTHER)


async def test_a_definition_whose_table_is_wrong_is_served_and_its_writer_is_told(backend: Backend) -> None:
    (told,) = await define(backend, "pods: 3")
    assert told.startswith("metadata.annotations[unisono.io/job-kind]: Expected `array`")
    assert "count as no jobs" in told
    await create(backend, swarm(where={"queue": "gold"}), OTHER)
