from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.serving import TABLE, ScriptedService, WebClient, serving
from unisono.api.kinds import CONFIG_MAPS, JOBS, NODES, PODS
from unisono.apiserver.flow_control import Limits
from unisono.apiserver.types import DeleteOptions
from unisono.errors import ApiError, Conflict, Invalid, NotFound, Unavailable

CM = "/api/v1/namespaces/default/configmaps"
POD = "/api/v1/namespaces/default/pods/p"
VCJOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture
async def web(service: ScriptedService, tmp_path: Path) -> AsyncIterator[WebClient]:
    async with serving(service, tmp_path, clock=lambda: 1_800_000_000.0) as client:
        yield client


async def test_get_answers_the_stored_bytes_and_common_headers(service: ScriptedService, web: WebClient) -> None:
    expected = service.put(CONFIG_MAPS, "a", "default", data={"k": "v"})
    reply = await web.get(f"{CM}/a")
    assert (reply.status, reply.json()) == (200, expected)
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.headers["Cache-Control"] == "no-cache, private"
    assert len(reply.headers["Audit-Id"]) == 36
    assert "aiohttp" not in reply.headers["Server"]


async def test_list_is_joined_from_stored_bytes(service: ScriptedService, web: WebClient) -> None:
    first, second = (service.put(CONFIG_MAPS, name, "default") for name in "ab")
    reply = await web.get(f"{CM}?limit=2&continue=c&labelSelector=x%3Dy&fieldSelector=f&resourceVersion=0")
    assert reply.json() == {
        "kind": "ConfigMapList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "7", "continue": "next", "remainingItemCount": 3},
        "items": [first, second],
    }
    assert service.asked[0][-1] == {
        "label_selector": "x=y",
        "field_selector": "f",
        "limit": 2,
        "continue_token": "c",
        "resource_version": "0",
        "exact": False,
    }


async def test_empty_list(web: WebClient) -> None:
    assert (await web.get("/api/v1/nodes")).json()["items"] == []


async def test_alias_versions_reach_the_service(service: ScriptedService, web: WebClient) -> None:
    await web.get("/apis/batch.volcano.sh/v1beta1/jobs")
    assert service.asked[0][1] == "batch.volcano.sh/v1beta1"


async def test_table_of_a_list(service: ScriptedService, web: WebClient) -> None:
    for index in range(100):
        service.put(CONFIG_MAPS, f"a{index}", "default", data={"k": "v"})
    table = (await web.get(CM, accept=TABLE)).json()
    assert table["kind"] == "Table"
    assert table["metadata"] == {"resourceVersion": "7"}
    assert table["rows"][0]["cells"] == ["a0", 1, "<unknown>"]
    assert len(table["rows"]) == 100


async def test_table_of_one_object(service: ScriptedService, web: WebClient) -> None:
    service.put(CONFIG_MAPS, "a", "default")
    table = (await web.get(f"{CM}/a?includeObject=Object", accept=TABLE)).json()
    assert table["rows"][0]["object"]["kind"] == "ConfigMap"
    assert table["metadata"] == {"resourceVersion": "5"}


async def test_metadata_only(service: ScriptedService, web: WebClient) -> None:
    service.put(CONFIG_MAPS, "a", "default", data={"k": "v"})
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    found = (await web.get(CM, accept=accept)).json()
    assert found["kind"] == "PartialObjectMetadataList"
    assert set(found["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_yaml_answers(service: ScriptedService, web: WebClient) -> None:
    service.put(CONFIG_MAPS, "a", "default")
    reply = await web.get(f"{CM}/a", accept="application/yaml")
    assert reply.headers["Content-Type"] == "application/yaml"
    assert b"kind: ConfigMap\n" in reply.body


async def test_large_answers_are_compressed_when_asked(service: ScriptedService, web: WebClient) -> None:
    service.put(CONFIG_MAPS, "a", "default", data={"k": "v" * 400_000})
    plain = await web.get(f"{CM}/a", headers={"Accept-Encoding": "identity"})
    packed = await web.get(f"{CM}/a", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body) / 10


async def test_create_passes_options_and_shows_warnings(service: ScriptedService, web: WebClient) -> None:
    service.warnings = ['unknown field "spec.bogus"']
    reply = await web.post(
        f"{VCJOBS}?fieldManager=kubectl-create&fieldValidation=Warn&dryRun=All", {"kind": "Job", "metadata": {}}
    )
    options = service.asked[0][-1]
    assert reply.status == 201
    assert reply.headers["Warning"] == '299 - "unknown field \\"spec.bogus\\""'
    assert (options.dry_run, options.field_manager, options.field_validation) == (True, "kubectl-create", "Warn")
    assert options.user == "unisono-admin"


async def test_warnings_are_safe_and_bounded(service: ScriptedService, web: WebClient) -> None:
    service.warnings = ["a\r\nEvil: 1\x00 \ud800", "é", "é", 'say "b\\"']
    reply = await web.post(CM, {})
    assert "Evil" not in reply.headers
    assert reply.headers.getall("Warning") == ['299 - "a Evil: 1\ufffd \ufffd"', '299 - "é"', '299 - "say \\"b\\\\\\""']
    service.warnings = [f"{index:03d}" + "x" * 500 for index in range(100)]
    texts = (await web.post(CM, {})).headers.getall("Warning")
    assert (len(texts), max(map(len, texts))) == (16, 256 + len('299 - ""'))


async def test_the_field_manager_defaults_to_the_user_agent(service: ScriptedService, web: WebClient) -> None:
    await web.post(CM, {}, headers={"User-Agent": "kubectl/v1.32 (linux)"})
    assert service.asked[0][-1].field_manager == "kubectl"


async def test_bodies_in_yaml(service: ScriptedService, web: WebClient) -> None:
    reply = await web.post(CM, b"kind: ConfigMap\nmetadata: {name: a}\n", type="application/yaml")
    assert reply.status == 201
    assert service.asked[0][4] == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


DUPLICATE = b'{"kind":"ConfigMap","data":{"k":"1","k":"2"},"metadata":{"name":"a"}}'


async def test_duplicate_keys_are_refused_when_strict(service: ScriptedService, web: WebClient) -> None:
    reply = await web.post(f"{CM}?fieldValidation=Strict", DUPLICATE)
    assert (reply.status, reply.json()["reason"]) == (400, "BadRequest")
    assert reply.json()["message"] == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: duplicate field "data.k"'
    )
    assert service.asked == []


async def test_duplicate_keys_warn_by_default(web: WebClient) -> None:
    reply = await web.post(CM, DUPLICATE)
    assert (reply.status, reply.headers["Warning"]) == (201, '299 - "duplicate field \\"data.k\\""')


async def test_update_of_a_status(service: ScriptedService, web: WebClient) -> None:
    reply = await web.call("PUT", f"{VCJOBS}/j/status", {"kind": "Job"})
    assert reply.status == 200
    assert service.asked[0][0] == "update"
    assert service.asked[0][-1] == "status"


@pytest.mark.parametrize(
    ("content_type", "patch", "name", "status"),
    [
        ("application/merge-patch+json", {"a": 1}, "merge", 200),
        ("application/json-patch+json", [{"op": "remove", "path": "/a"}], "json", 200),
        ("application/strategic-merge-patch+json; charset=utf-8", {"a": 1}, "strategic", 200),
        ("application/apply-patch+yaml", {"a": 1}, "apply", 201),
    ],
)
async def test_patch_types(
    service: ScriptedService, web: WebClient, content_type: str, patch: Any, name: str, status: int
) -> None:
    query = "?fieldManager=me&force=true" if name == "apply" else ""
    reply = await web.call("PATCH", f"{VCJOBS}/j{query}", patch, type=content_type)
    assert reply.status == status
    assert service.asked[0][4:6] == (patch, name)
    assert service.asked[0][6].force is (name == "apply")


@pytest.mark.parametrize(
    ("query", "content_type", "field", "message"),
    [
        ("", "application/apply-patch+yaml", "fieldManager", "Required value: is required for apply patch"),
        ("?force=true", "application/merge-patch+json", "force", "Forbidden: may not be specified for non-apply patch"),
        (
            f"?fieldManager={'x' * 129}",
            "application/merge-patch+json",
            "fieldManager",
            "Too long: may not be more than 128 bytes",
        ),
        (
            "?fieldManager=a%07b",
            "application/merge-patch+json",
            "fieldManager",
            'Invalid value: "a\\u0007b": invalid character U+0007 (at position 1)',
        ),
    ],
)
async def test_options_of_a_patch_that_make_no_sense(
    service: ScriptedService, web: WebClient, query: str, content_type: str, field: str, message: str
) -> None:
    reply = await web.call("PATCH", f"{VCJOBS}/j{query}", {"a": 1}, type=content_type)
    assert reply.status == 422
    assert reply.json()["message"] == f'PatchOptions.meta.k8s.io "" is invalid: {field}: {message}'
    assert not service.asked


async def test_a_writer_without_a_name_is_known_by_its_program(service: ScriptedService, web: WebClient) -> None:
    headers = {"User-Agent": "kopf/1.37 (linux)"}
    await web.call("PATCH", f"{VCJOBS}/j", {"a": 1}, type="application/merge-patch+json", headers=headers)
    assert service.asked[0][6].field_manager == "kopf"


async def test_delete_answers_a_status_with_the_uid(service: ScriptedService, web: WebClient) -> None:
    body = {
        "propagationPolicy": "Background",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u", "resourceVersion": "3"},
    }
    reply = await web.call("DELETE", f"{CM}/gone", body)
    assert reply.json()["status"] == "Success"
    assert reply.json()["details"] == {"name": "gone", "kind": "configmaps", "uid": "u"}
    assert service.asked[0][-1] == DeleteOptions(
        grace_period_seconds=0,
        propagation_policy="Background",
        uid="u",
        resource_version="3",
        user="unisono-admin",
        groups=("system:masters", "system:authenticated"),
    )


async def test_delete_reads_options_from_the_query(service: ScriptedService, web: WebClient) -> None:
    service.put(CONFIG_MAPS, "a", "default")
    reply = await web.call("DELETE", f"{CM}/a?gracePeriodSeconds=5&propagationPolicy=Orphan&dryRun=All")
    assert reply.json()["kind"] == "ConfigMap"
    options = service.asked[0][-1]
    assert (options.grace_period_seconds, options.propagation_policy, options.dry_run) == (5, "Orphan", True)


@pytest.mark.parametrize(
    ("query", "body", "dry"),
    [
        ("?dryRun=All", None, True),
        ("?dryRun=All", {}, False),
        ("?dryRun=All", {"gracePeriodSeconds": 5}, False),
        ("?dryRun=All", {"dryRun": ["All"]}, True),
        ("", {"dryRun": ["All"]}, True),
        ("?dryRun=Some", {"gracePeriodSeconds": 5}, False),
    ],
)
async def test_a_delete_with_a_body_does_not_look_at_the_query(
    service: ScriptedService, web: WebClient, query: str, body: Any, dry: bool
) -> None:
    service.put(CONFIG_MAPS, "a", "default")
    assert (await web.call("DELETE", f"{CM}/a{query}", body)).status == 200
    assert service.asked[0][-1].dry_run is dry


async def test_delete_collection(service: ScriptedService, web: WebClient) -> None:
    reply = await web.call("DELETE", f"{CM}?labelSelector=a")
    assert (reply.status, reply.json()["kind"]) == (200, "ConfigMapList")
    assert service.asked[0][-1] == {"label_selector": "a", "field_selector": ""}


async def test_binding_and_eviction(service: ScriptedService, web: WebClient) -> None:
    bound = await web.post(f"{POD}/binding", {"target": {"kind": "Node", "name": "n"}})
    evicted = await web.post(f"{POD}/eviction", {"kind": "Eviction"})
    assert [bound.status, evicted.status] == [201, 201]
    assert bound.json()["status"] == "Success"
    assert service.asked[0][:4] == ("bind", "default", "p", "n")


ERRORS = [
    (NotFound('configmaps "a" not found', details={"name": "a", "kind": "configmaps"}), 404, "NotFound"),
    (Conflict("changed"), 409, "Conflict"),
    (Invalid("bad", details={"causes": [{"field": "spec"}]}), 422, "Invalid"),
    (ApiError("no", code=403, reason="Forbidden"), 403, "Forbidden"),
    (Unavailable("disk is full", code=503, details={"retryAfterSeconds": 2.5}), 503, "ServiceUnavailable"),
]


@pytest.mark.parametrize(("error", "code", "reason"), ERRORS)
async def test_errors_are_status_objects(
    service: ScriptedService, web: WebClient, error: ApiError, code: int, reason: str
) -> None:
    service.failure = error
    reply = await web.get(f"{CM}/a", accept=TABLE)
    found = reply.json()
    assert (reply.status, found["code"], found["reason"]) == (code, code, reason)
    assert (found["kind"], found["apiVersion"], found["status"]) == ("Status", "v1", "Failure")
    assert found["message"] == error.message
    assert found.get("details", {}) == error.details
    assert reply.headers.get("Retry-After") == ("3" if code == 503 else None)


async def test_a_defect_answers_500_without_inner_details(service: ScriptedService, web: WebClient) -> None:
    service.failure = RuntimeError("secret token 12345")
    reply = await web.get(f"{CM}/a")
    assert (reply.status, reply.json()["reason"]) == (500, "InternalError")
    assert "12345" not in reply.body.decode()
    service.failure = None
    assert (await web.get(CM)).status == 200


BAD_REQUESTS = [
    ("POST", CM, b"", {}, 400, "json parse error"),
    ("POST", CM, b"{", {}, 400, "json parse error"),
    ("POST", CM, b"[]", {}, 400, "not an object"),
    ("POST", CM, b'{"a":"\xff"}', {}, 400, "json parse error"),
    ("POST", CM, b"[" * 100_000, {}, 400, "json parse error"),
    ("POST", CM, b"{}", {"type": "text/plain"}, 415, "accepted media types include: application/json"),
    ("POST", CM, b"a: [", {"type": "application/yaml"}, 400, "error converting YAML to JSON"),
    ("POST", CM, b"a: 1\n---\nb: 1", {"type": "application/yaml"}, 400, "exactly one YAML document"),
    ("POST", CM + "?dryRun=Some", b"{}", {}, 422, 'dryRun: Unsupported value: ["Some"]'),
    ("POST", CM + "?fieldValidation=x", b"{}", {}, 422, "fieldValidation: Unsupported value"),
    ("PATCH", CM + "/a", b"{}", {"type": "application/json"}, 415, "application/merge-patch+json"),
    ("PATCH", CM + "/a", b"{}", {"type": "application/json-patch+json"}, 400, "list of operations"),
    ("PATCH", CM + "/a", b"[]", {"type": "application/merge-patch+json"}, 400, "must be an object"),
    ("DELETE", CM + "/a", b'{"gracePeriodSeconds":"x"}', {}, 400, "gracePeriodSeconds"),
    ("GET", CM + "?limit=x", None, {}, 400, 'parsing "x"'),
    ("GET", CM + "?includeObject=All", None, {"accept": TABLE}, 400, "unrecognized includeObject"),
    ("GET", VCJOBS, None, {"accept": "application/vnd.kubernetes.protobuf"}, 406, "application/json"),
    ("GET", CM, None, {"accept": "application/json;as=Bogus;g=meta.k8s.io;v=v1"}, 406, "only the following"),
    ("PUT", CM, b"{}", {}, 405, "does not allow this method"),
    ("POST", "/api/v1/configmaps", b"{}", {}, 405, "does not allow this method"),
    ("POST", "/api/v1/nodes/n", b"{}", {}, 405, "does not allow this method"),
    ("GET", POD + "/binding", None, {}, 405, "does not allow this method"),
    ("POST", POD + "/status", b"{}", {}, 405, "does not allow this method"),
    ("PURGE", CM, None, {}, 405, "does not allow this method"),
    ("POST", "/version", b"{}", {}, 405, "does not allow this method"),
]


@pytest.mark.parametrize(("method", "path", "body", "options", "status", "text"), BAD_REQUESTS)
async def test_bad_requests(
    service: ScriptedService,
    web: WebClient,
    method: str,
    path: str,
    body: Any,
    options: dict[str, Any],
    status: int,
    text: str,
) -> None:
    reply = await web.call(method, path, body, **options)
    assert reply.status == status
    assert reply.json()["code"] == status
    assert text in reply.json()["message"]
    assert {asked[0] for asked in service.asked} <= {"list"}


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/api/v2",
        "/apis/none.io",
        "/apis/none.io/v1",
        "/apis/none.io/v1/things",
        "/apis/batch.volcano.sh/v9/jobs",
        "/api/v1/namespaces/default/pods/p/status/deeper",
        "/openapi/v2/api",
        "/openapi/v3/apis/none.io/v1",
        "/healthz/a/b",
    ],
)
async def test_unknown_paths(web: WebClient, path: str) -> None:
    reply = await web.get(path)
    assert (reply.status, reply.body) == (404, b"404 page not found\n")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/bogus",
        "/api/v1/namespaces/default/bogus",
        "/api/v1/pods/p",
        "/api/v1/namespaces/default/nodes/n",
        "/api/v1/namespaces/default/pods/p/bogus",
    ],
)
async def test_unknown_resources_of_known_groups(web: WebClient, path: str) -> None:
    reply = await web.get(path)
    assert (reply.status, reply.json()["reason"]) == (404, "NotFound")
    assert reply.json()["message"] == "the server could not find the requested resource"


async def test_percent_encoded_names(service: ScriptedService, web: WebClient) -> None:
    await web.session.request("GET", web.server.url + "/api/v1/nodes/a%2Fb")
    reply = await web.get("/api/v1/nodes/system%3Anode")
    assert reply.status == 404
    assert service.asked[-1] == ("get", "v1", "nodes", None, "system:node")


async def test_body_limit(tmp_path: Path, service: ScriptedService) -> None:
    async with serving(service, tmp_path, limits=Limits(body_bytes=1000)) as web:
        for body in (b'{"a":"' + b"x" * 1000 + b'"}', gzip.compress(b'{"a":"' + b" " * 100_000 + b'"}')):
            encoding = {"Content-Encoding": "gzip"} if body[:2] == b"\x1f\x8b" else {}
            reply = await web.post(CM, body, headers=encoding)
            assert (reply.status, reply.json()["reason"]) == (413, "RequestEntityTooLarge")
            assert reply.json()["message"] == "Request entity too large: limit is 1000"
        assert (await web.post(CM, {})).status == 201


async def test_every_kind_can_be_listed_everywhere(web: WebClient) -> None:
    for kind in (PODS, NODES, JOBS):
        assert (await web.get(kind.path())).status == 200
    assert (await web.get(PODS.path("default"))).status == 200


VERSION_PARAMETERS = [
    ("resourceVersionMatch=Exact", "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"),
    (
        "resourceVersionMatch=Exact&resourceVersion=0",
        'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
    ),
    (
        "resourceVersionMatch=NotOlderThan&resourceVersion=3&continue=x",
        "Forbidden: resourceVersionMatch is forbidden when continue is provided",
    ),
    (
        "resourceVersionMatch=Best&resourceVersion=3",
        'Unsupported value: "Best": supported values: "Exact", "NotOlderThan", ""',
    ),
    (
        "watch=true&sendInitialEvents=true",
        "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
    ),
    (
        "watch=true&resourceVersionMatch=NotOlderThan",
        "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
    ),
]


@pytest.mark.parametrize(("query", "message"), VERSION_PARAMETERS)
async def test_version_parameters_that_do_not_fit(web: WebClient, query: str, message: str) -> None:
    reply = await web.get(f"{CM}?{query}")
    assert reply.status == 422
    assert reply.json()["message"] == f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: {message}'
