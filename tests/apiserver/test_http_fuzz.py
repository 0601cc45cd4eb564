"""Whatever a request says over HTTP, the answer is an object or a clear error, and what is stored can be read."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from urllib.parse import quote, urlencode

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.serving import WebClient, serving
from unisono.apiserver.backend import Backend

PATIENCE = 300.0
slow = settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])

words = st.sampled_from(
    [
        "api",
        "apis",
        "v1",
        "batch",
        "batch.volcano.sh",
        "v1alpha1",
        "namespaces",
        "default",
        "pods",
        "jobs",
        "configmaps",
        "x",
        "status",
        "scale",
        "log",
        "binding",
        "token",
        "eviction",
        "openapi",
        "v3",
        "watch",
        "proxy",
        "",
        ".",
        "*",
    ]
) | st.text(max_size=4)
names = st.sampled_from(
    ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "timeoutSeconds"]
) | (
    st.sampled_from(
        ["resourceVersionMatch", "dryRun", "fieldManager", "fieldValidation", "force", "pretty", "container"]
    )
)
texts = st.text(max_size=6) | st.sampled_from(
    ["a=b", "a in (b,c)", "!a", "a notin (", "metadata.name=x", "spec.nodeName!=", "0", "-1", "1", "All", "Strict", "x"]
)
queries = st.dictionaries(names, texts, max_size=3)
scalars = st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts
junk = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "name", "spec", "labels", "data", "managedFields", "finalizers", "a", "$patch"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
accepts = st.sampled_from(["application/json", "application/yaml", "*/*", "text/html", ""]) | st.just(
    "application/json;as=Table;v=v1;g=meta.k8s.io"
)
PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
OBJECTS = {
    "/api/v1/namespaces/default/configmaps": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}},
    "/apis/fuzz.example.io/v1/namespaces/default/things": {
        "apiVersion": "fuzz.example.io/v1",
        "kind": "Thing",
        "spec": {"n": 1, "l": [{"name": "a"}]},
    },
}
SCHEMAS = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "integer", "minimum": 1}, {"x-kubernetes-int-or-string": True}])
    | st.sampled_from(
        [{"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"type": "string", "pattern": "("}]
    ),
    lambda inner: (
        st.builds(lambda of: {"type": "array", "items": of}, inner)
        | st.builds(lambda of: {"type": "object", "properties": of}, st.dictionaries(texts, inner, max_size=3))
        | st.builds(lambda of: {"type": "object", "additionalProperties": of}, inner)
        | st.builds(lambda of, value: {**of, "default": value}, inner, junk)
    ),
    max_leaves=5,
)


def definition(schema: object) -> dict[str, object]:
    names = {"plural": "things", "singular": "thing", "kind": "Thing"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.fuzz.example.io"},
        "spec": {"group": "fuzz.example.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }


GOOD = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "l": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def with_server(act, schema=GOOD):
    """Run ``act`` with a client of a fresh server; at the end everything that is stored must be readable."""

    async def run():
        backend = await Backend.open()
        with tempfile.TemporaryDirectory() as folder:
            try:
                async with serving(backend.service, Path(folder)) as web:
                    made = await ask(
                        web, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(schema)
                    )
                    await act(web, made)
                    await readable(web)
            finally:
                await backend.close()

    asyncio.run(run())


async def ask(web: WebClient, method: str, path: str, body=None, **options):
    """The answer, which is never the server's fault and never a long time coming."""
    async with asyncio.timeout(PATIENCE):
        reply = await web.call(method, path, body, **options)
    assert reply.status < 500 or reply.status == 504, (method, path, reply.status, reply.body)
    if reply.status >= 400 and reply.headers["Content-Type"].startswith("application/json"):
        assert reply.json()["message"]
    return reply


async def readable(web: WebClient) -> None:
    for path in OBJECTS:
        listed = await ask(web, "GET", path)
        if listed.status == 404:
            continue
        for item in listed.json()["items"]:
            found = await ask(web, "GET", f"{path}/{item['metadata']['name']}")
            assert found.status == 200
            assert found.json()["metadata"] == item["metadata"]
            for form in ("application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io"):
                assert (await ask(web, "GET", f"{path}/{item['metadata']['name']}", accept=form)).status == 200


@slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]),
            st.lists(words, max_size=8),
            queries,
            st.none() | junk,
            accepts,
        ),
        max_size=15,
    )
)
def test_any_path_and_query(requests):
    async def act(web, made):
        for method, path, query, body, accept in requests:
            where = "/" + "/".join(quote(part, safe="") for part in path) + ("?" + urlencode(query) if query else "")
            await ask(web, method, where, body, accept=accept)

    with_server(act)


@slow
@given(st.lists(st.tuples(st.sampled_from(sorted(OBJECTS)), queries), min_size=1, max_size=15), st.booleans())
def test_any_selector_and_page(cases, watching):
    async def act(web, made):
        for path, body in OBJECTS.items():
            await ask(web, "POST", path, {**body, "metadata": {"name": "x", "labels": {"a": "b"}}})
        for path, query in cases:
            extra = {"watch": "true", "timeoutSeconds": "0"} if watching else {}
            query = {key: word for key, word in query.items() if not (watching and key == "resourceVersion")}
            if not watching:
                await ask(web, "GET", f"{path}?{urlencode({**query, **extra})}")
            await ask(web, "DELETE", f"{path}?{urlencode({**query, 'dryRun': 'All'})}")

    with_server(act)


@slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(OBJECTS)),
            st.sampled_from(sorted(PATCHES)),
            junk | st.lists(st.fixed_dictionaries({"op": texts, "path": texts, "value": junk}), max_size=2),
            st.sampled_from(["", "/status", "/scale"]),
            st.sampled_from(["", "?fieldManager=m", "?fieldManager=m&force=true", "?fieldManager=m&dryRun=All"]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_any_patch_and_apply(cases):
    async def act(web, made):
        for path, body in OBJECTS.items():
            assert (await ask(web, "POST", path, {**body, "metadata": {"name": "x"}})).status == 201
        for path, form, patch, subresource, query in cases:
            if form == "apply" and isinstance(patch, dict):
                patch = {**OBJECTS[path], **patch}
            data = yaml.safe_dump(patch).encode() if form == "apply" else json.dumps(patch).encode()
            await ask(web, "PATCH", f"{path}/x{subresource}{query}", data, type=PATCHES[form])
            await ask(web, "PUT", f"{path}/x{subresource}", patch)

    with_server(act)


@slow
@given(st.lists(st.tuples(st.sampled_from(sorted(OBJECTS)), junk | st.binary(max_size=40)), min_size=1, max_size=12))
def test_any_body(cases):
    async def act(web, made):
        for path, body in cases:
            if isinstance(body, dict):
                body = {**OBJECTS[path], "metadata": {"generateName": "x-"}, **body}
            await ask(web, "POST", path, body)

    with_server(act)


@slow
@given(SCHEMAS, st.lists(junk, max_size=5))
def test_any_definition(schema, bodies):
    async def act(web, made):
        assert made.status in (201, 422, 400)
        path = "/apis/fuzz.example.io/v1/namespaces/default/things"
        for body in bodies:
            await ask(
                web,
                "POST",
                path,
                {"apiVersion": "fuzz.example.io/v1", "kind": "Thing", "metadata": {"generateName": "x-"}, "spec": body},
            )
        assert (await ask(web, "GET", "/openapi/v3")).status == 200

    with_server(act, schema)
