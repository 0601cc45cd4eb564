"""Whatever is sent, the answer is an object or a clear error, and what is stored can be read."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.backends import OPTIONS, STRICT, group_body, job_body, opened, pod_body, queue_body, value
from support.examples import examples
from unisono.api.kinds import JOBS, POD_GROUPS, PODS, QUEUES
from unisono.apiserver.types import DeleteOptions
from unisono.errors import ApiError

BODIES = {
    PODS: pod_body("x"),
    JOBS: job_body("x"),
    QUEUES: queue_body("x"),
    POD_GROUPS: group_body("x"),
}
scalars = st.none() | st.booleans() | st.integers(-3, 2**33) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(max_size=4) | st.sampled_from(
    ["x", "1Gi", "-1", "default", "Always", "2020-01-01T00:00:00Z", "\x00", "é"]
)
junk = st.recursive(
    scalars | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "spec", "a", "key", "value", "uid", "kind"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def paths(body, prefix=()):
    """Every place in a JSON value."""
    yield prefix
    if isinstance(body, dict):
        for key, inner in body.items():
            yield from paths(inner, (*prefix, key))
    elif isinstance(body, list):
        for index, inner in enumerate(body):
            yield from paths(inner, (*prefix, index))


def replaced(body, path, new):
    """A copy of a JSON value with another value at one place."""
    if not path:
        return new
    copy = msgspec.json.decode(msgspec.json.encode(body))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return copy


@st.composite
def damaged_bodies(draw):
    kind = draw(st.sampled_from(list(BODIES)))
    body = BODIES[kind]
    for _ in range(draw(st.integers(0, 2))):
        body = replaced(body, draw(st.sampled_from(sorted(paths(body), key=repr))), draw(junk))
        if not isinstance(body, dict):
            body = {"spec": body}
    return kind, body


@st.composite
def patches(draw):
    kind = draw(st.sampled_from(list(BODIES)))
    patch_type = draw(st.sampled_from(["merge", "strategic", "json"]))
    if patch_type != "json":
        field = draw(st.sampled_from(["metadata", "spec", "status", "kind"]))
        inner = st.dictionaries(
            st.sampled_from(["labels", "finalizers", "containers", "tasks", "weight", "minMember", "phase", "a"]),
            junk,
            max_size=3,
        )
        return kind, patch_type, {field: draw(inner | junk)}
    places = ["/" + "/".join(map(str, path)) if path else "" for path in paths(BODIES[kind])]
    operation = {"op": draw(st.sampled_from(["add", "remove", "replace"])), "path": draw(st.sampled_from(places))}
    return kind, patch_type, [{**operation, "value": draw(junk)}]


def place(kind):
    return "default" if kind.namespaced else None


async def attempt(request):
    """The answer, or None for a refusal that a client can understand."""
    try:
        return await request
    except ApiError as error:
        assert 400 <= error.code < 500
        assert error.message
        return None


async def readable(backend):
    for kind in BODIES:
        page = await backend.service.list(kind, None)
        client = await backend.client().list(kind)
        assert len(page.items) == len(client.items)
        for item in page.items:
            meta = value(item)["metadata"]
            assert await backend.service.get(kind, meta.get("namespace"), meta["name"]) == item


slow = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.more
@slow
@given(st.lists(st.tuples(damaged_bodies(), st.sampled_from([OPTIONS, STRICT])), min_size=1, max_size=8))
def test_any_body(cases):
    async def run():
        async with opened() as backend:
            for (kind, body), options in cases:
                written = await attempt(backend.service.create(kind, place(kind), body, options))
                if written is not None:
                    name = value(written.object)["metadata"]["name"]
                    await attempt(backend.service.update(kind, place(kind), name, body, options))
                    again = value(await backend.service.get(kind, place(kind), name))
                    replace = await backend.service.update(kind, place(kind), name, again, STRICT)
                    assert value(replace.object) == again, "what is read can be written back, and changes nothing"
                    await attempt(backend.service.delete(kind, place(kind), name, DeleteOptions()))
            await readable(backend)

    asyncio.run(run())


@pytest.mark.more
@slow
@given(st.lists(patches(), min_size=1, max_size=8), st.booleans())
def test_any_patch(cases, on_status):
    async def run():
        async with opened() as backend:
            for kind, body in BODIES.items():
                await backend.service.create(kind, place(kind), body, OPTIONS)
            for kind, patch_type, patch in cases:
                subresource = "status" if on_status and kind.status_subresource else ""
                await attempt(backend.service.patch(kind, place(kind), "x", patch, patch_type, OPTIONS, subresource))
            await readable(backend)

    asyncio.run(run())
