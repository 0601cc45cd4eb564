"""Several appliers on one object: what holds, whatever they want, and in whatever order they come."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_service_fuzz import junk

from support.backends import opened, value
from support.examples import examples
from unisono.api.kinds import JOBS, PODS, SERVICES
from unisono.api.schema import schema_of
from unisono.apiserver import managed_fields
from unisono.apiserver.managed_fields.managers import merge
from unisono.apiserver.managed_fields.paths import all_fields, compare, fields_of, from_tree, to_tree
from unisono.apiserver.types import WriteOptions
from unisono.errors import ApiError, Conflict

SCHEMA = schema_of(PODS)
START: dict[str, Any] = {"metadata": {}, "spec": {"containers": []}, "status": {}}
MANAGERS = ("a", "b", "c")
quick = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])

words = st.sampled_from(["1", "2"])
maps = st.dictionaries(st.sampled_from(["k", "l", "m.io/n"]), words, max_size=3)
env = st.lists(st.sampled_from(["A", "B"]), unique=True, min_size=1, max_size=2).flatmap(
    lambda names: st.tuples(*(words.map(lambda word, name=name: {"name": name, "value": word}) for name in names)).map(
        list
    )
)
ports = st.lists(
    st.sampled_from([{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}]),
    unique_by=repr,
    min_size=1,
    max_size=3,
)


@st.composite
def containers(draw):
    names = draw(st.lists(st.sampled_from(["x", "y", "z"]), unique=True, min_size=1, max_size=3))
    return [
        {
            "name": name,
            **draw(
                st.fixed_dictionaries(
                    {}, optional={"image": words, "env": env, "ports": ports, "args": st.lists(words)}
                )
            ),
        }
        for name in names
    ]


metadata = st.fixed_dictionaries(
    {},
    optional={
        "labels": maps,
        "finalizers": st.lists(st.sampled_from(["a.io/f", "b.io/g"]), unique=True, min_size=1, max_size=2),
    },
)
configs = st.fixed_dictionaries(
    {},
    optional={
        "metadata": metadata,
        "spec": st.fixed_dictionaries(
            {}, optional={"containers": containers(), "nodeName": words, "nodeSelector": maps}
        ),
    },
)
applications = st.lists(st.tuples(st.sampled_from(MANAGERS), configs, st.booleans()), min_size=1, max_size=7)


def nothing(_):
    return False


def step(live, entries, manager, config, force):
    writer = managed_fields.FieldManager(manager, "Apply", "v1")
    return managed_fields.apply(live, config, SCHEMA, entries, writer, "t", nothing, force=force)


def mine(entries, manager):
    return next((entry.fields for entry in entries if entry.writer.name == manager), frozenset())


@pytest.mark.more
@quick
@given(applications)
def test_the_object_is_what_its_owners_want(steps):
    live, entries, wanted = START, [], {}
    for manager, config, force in steps:
        try:
            applied = step(live, entries, manager, config, force)
        except Conflict as conflict:
            assert not force
            assert conflict.details["causes"]
            continue
        live, entries = applied.object, applied.entries
        wanted[manager] = config
        assert mine(entries, manager) == fields_of(config, SCHEMA) - {(), ("f:metadata",)}
        # What was applied is there, and applying it once more changes nothing.
        assert not compare(live, merge(live, config, SCHEMA), SCHEMA)
        again = step(live, entries, manager, config, force=False)
        assert again.object == live
        assert sorted(again.entries, key=repr) == sorted(entries, key=repr)
        present = all_fields(live, SCHEMA)
        for entry in entries:
            assert entry.fields <= present, "nobody owns what is not there"
    for manager, config in wanted.items():
        # Where two appliers own a field, they agree about it.
        held = mine(entries, manager)
        differing = compare(live, merge(live, config, SCHEMA), SCHEMA).written
        assert not differing & held


@pytest.mark.more
@quick
@given(applications)
def test_when_all_appliers_leave_nothing_of_theirs_is_left(steps):
    live, entries = START, []
    for manager, config, _ in steps:
        applied = step(live, entries, manager, config, force=True)
        live, entries = applied.object, applied.entries
    for manager in MANAGERS:
        applied = step(live, entries, manager, {}, force=False)
        live, entries = applied.object, applied.entries
    assert not entries
    leaves = {path for path in all_fields(live, SCHEMA) if path not in all_fields(START, SCHEMA)}
    assert not leaves


@quick
@given(configs, configs)
def test_sets_survive_the_wire(one, other):
    fields = fields_of(one, SCHEMA) | fields_of(other, SCHEMA)
    fields -= {()}
    assert from_tree(to_tree(fields)) == fields


KINDS = {
    PODS: {"containers": [{"name": "main", "image": "x"}]},
    SERVICES: {"ports": [{"port": 80, "name": "web"}]},
    JOBS: {
        "tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "m", "image": "x"}]}}}]
    },
}


@st.composite
def requests(draw):
    kind = draw(st.sampled_from(list(KINDS)))
    spec = draw(st.just(KINDS[kind]) | st.dictionaries(st.sampled_from([*KINDS[kind], "a"]), junk, max_size=2) | junk)
    extra = draw(st.dictionaries(st.sampled_from(["labels", "managedFields", "uid", "finalizers"]), junk, max_size=1))
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x", **extra}, "spec": spec}
    patch_type = draw(st.sampled_from(["apply", "apply", "merge"]))
    options = WriteOptions(field_manager=draw(st.sampled_from(MANAGERS)), force=draw(st.booleans()))
    subresource = "status" if draw(st.integers(0, 4)) == 0 else ""
    return kind, body, patch_type, options, subresource


@pytest.mark.more
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(requests(), min_size=1, max_size=10))
def test_any_request_is_answered_and_owners_stay_readable(cases):
    async def run():
        async with opened() as backend:
            for kind, body, patch_type, options, subresource in cases:
                try:
                    written = await backend.service.patch(kind, "default", "x", body, patch_type, options, subresource)
                except ApiError as error:
                    assert 400 <= error.code < 500, error
                    continue
                found = value(written.object)
                managed = found["metadata"].get("managedFields", [])
                assert len(managed_fields.read_entries(managed)) == len(managed)

    asyncio.run(run())
