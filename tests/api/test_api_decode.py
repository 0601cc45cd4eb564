"""Decoding: aliases, nulls, unknown fields and wrong types come back as values, and nothing ever raises."""

# ruff: noqa: E501 - a case and its message stand on one line, so that both can be searched for
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from unisono.api import kinds, yaml
from unisono.api.decode import decode, encode
from unisono.api.defaulting import apply_defaults
from unisono.api.kind import Kind
from unisono.api.validation import validate


def job(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}


def pod_template(**container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", **container}]}}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            job(minAvailable="3"),
            'spec.minAvailable: Invalid value: "string": spec.minAvailable in body must be of type integer: "string"',
        ),
        (
            job(minAvailable=1.5),
            'spec.minAvailable: Invalid value: "number": spec.minAvailable in body must be of type integer: "number"',
        ),
        (
            job(minAvailable=True),
            'spec.minAvailable: Invalid value: "boolean": spec.minAvailable in body must be of type integer: "boolean"',
        ),
        (job(tasks={}), 'spec.tasks: Invalid value: "object": spec.tasks in body must be of type array: "object"'),
        (
            job(tasks=[None]),
            'spec.tasks[0]: Invalid value: "null": spec.tasks[0] in body must be of type object: "null"',
        ),
        (
            job(tasks=[{"template": pod_template(env=[{"name": "A", "value": True}])}]),
            'spec.tasks[0].template.spec.containers[0].env[0].value: Invalid value: "boolean": '
            "spec.tasks[0].template.spec.containers[0].env[0].value in body must be of type string: "
            '"boolean"',
        ),
        (
            job(tasks=[{"template": pod_template(resources={"limits": {"cpu": "1x"}})}]),
            'spec.tasks[0].template.spec.containers[0].resources.limits[cpu]: Invalid value: "1x": quantities must match '
            "the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]+)*$'",
        ),
        (
            job(maxRetry=2**31),
            "spec.maxRetry: Invalid value: 2147483648: spec.maxRetry in body should be less than or equal to 2147483647",
        ),
        (
            job(maxRetry=-(10**400)),
            "spec.maxRetry: Invalid value: -1e300: spec.maxRetry in body should be greater than or equal to -2147483648",
        ),
        (
            {"status": {"state": {"lastTransitionTime": "2026-12-31T23:59:60Z"}}},
            'status.state.lastTransitionTime: Invalid value: "2026-12-31T23:59:60Z": status.state.lastTransitionTime in '
            "body must be of type date-time, such as 2026-11-20T16:33:50Z",
        ),
        (
            {"metadata": {"creationTimestamp": ""}},
            'metadata.creationTimestamp: Invalid value: "": metadata.creationTimestamp in body must be of type date-time, '
            "such as 2026-11-20T16:33:50Z",
        ),
        ({"spec": []}, 'spec: Invalid value: "array": spec in body must be of type object: "array"'),
        ([], 'Invalid value: "array": value in body must be of type object: "array"'),
    ],
)
def test_wrong_types_are_told_and_dropped(value: Any, message: str) -> None:
    decoded = decode(kinds.JOBS, value)
    assert [error.message() for error in decoded.type_errors] == [message]
    assert encode(decoded.obj)


def test_unknown_fields_are_pruned_and_named() -> None:
    value = job(bogus=1, tasks=[{"name": "a", "bogus": {"deep": 1}, "template": pod_template(imagee="x")}])
    decoded = decode(kinds.JOBS, value)
    assert decoded.unknown_fields == [
        "spec.bogus",
        "spec.tasks[0].bogus",
        "spec.tasks[0].template.spec.containers[0].imagee",
    ]
    assert b"bogus" not in encode(decoded.obj)


def test_nulls_are_dropped() -> None:
    value = job(minAvailable=None, tasks=None, plugins={"svc": None, "env": []})
    value["metadata"] |= {"creationTimestamp": None, "labels": {"a": None}}
    value["status"] = None
    decoded = decode(kinds.JOBS, value)
    assert not decoded.type_errors
    assert decoded.obj.spec.min_available is None
    # As Go does, a null map value is the zero value of its type.
    assert decoded.obj.spec.plugins == {"svc": [], "env": []}
    assert decoded.obj.metadata.labels == {"a": ""}
    assert decoded.obj.status.state.phase is None


def test_integral_numbers_are_integers() -> None:
    assert decode(kinds.JOBS, job(minAvailable=3.0)).obj.spec.min_available == 3


@pytest.mark.parametrize("depends", ["a", ["a"], {"name": "a"}, {"name": ["a"]}])
def test_spellings_of_depends_on(depends: Any) -> None:
    decoded = decode(kinds.JOBS, job(tasks=[{"name": "b", "dependsOn": depends}]))
    assert decoded.obj.spec.tasks is not None
    assert decoded.obj.spec.tasks[0].depends_on is not None
    assert decoded.obj.spec.tasks[0].depends_on.name == ["a"]
    assert not decoded.unknown_fields


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"guaranteed": {"cpu": 1}}, {"cpu": 1}),
        ({"guarantee": {"resource": {"cpu": 2}}}, {"cpu": 2}),
        ({"guaranteed": {"cpu": 1}, "guarantee": {"resource": {"cpu": 2}}}, {"cpu": 2}),
    ],
)
def test_spellings_of_guarantee(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    decoded = decode(kinds.QUEUES, {"spec": spec})
    assert decoded.obj.spec.guarantee is not None
    assert decoded.obj.spec.guarantee.resource == expected
    assert not decoded.unknown_fields


def test_both_versions_of_job_become_one() -> None:
    value = job() | {"apiVersion": "batch.volcano.sh/v1beta1"}
    assert kinds.find("batch.volcano.sh/v1beta1", "Job") is kinds.JOBS
    assert decode(kinds.JOBS, value).obj.api_version == "batch.volcano.sh/v1alpha1"


def test_the_input_is_not_changed() -> None:
    value = {"spec": {"guaranteed": {"cpu": 1}, "weight": None}}
    decode(kinds.QUEUES, value)
    assert value == {"spec": {"guaranteed": {"cpu": 1}, "weight": None}}


def test_explicit_zeros_survive() -> None:
    pod = {
        "status": {
            "containerStatuses": [
                {"name": "c", "ready": False, "restartCount": 0, "state": {"terminated": {"exitCode": 0}}}
            ]
        },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "env": [{"name": "A", "value": ""}]}],
        },
    }
    shown = msgspec.json.decode(encode(decode(kinds.PODS, pod).obj))
    assert shown["spec"]["terminationGracePeriodSeconds"] == 0
    assert shown["spec"]["containers"][0]["env"] == [{"name": "A", "value": ""}]
    status = shown["status"]["containerStatuses"][0]
    assert (status["ready"], status["restartCount"], status["state"]["terminated"]["exitCode"]) == (False, 0, 0)


def test_wire_names_with_initialisms() -> None:
    pod = {
        "spec": {"hostPID": True, "hostIPC": False, "setHostnameAsFQDN": True},
        "status": {"podIP": "127.1.0.1", "podIPs": [{"ip": "127.1.0.1"}], "hostIP": "10.0.0.1"},
    }
    decoded = decode(kinds.PODS, pod)
    assert not decoded.unknown_fields
    assert (decoded.obj.status.pod_ip, decoded.obj.spec.host_pid) == ("127.1.0.1", True)
    node = {"spec": {"podCIDR": "x", "providerID": "y"}, "status": {"nodeInfo": {"machineID": "z", "bootID": "b"}}}
    assert not decode(kinds.NODES, node).unknown_fields
    service = {"spec": {"clusterIP": "None", "clusterIPs": ["None"], "externalIPs": [], "loadBalancerIP": ""}}
    assert not decode(kinds.SERVICES, service).unknown_fields


def test_free_objects_are_kept() -> None:
    schema = {"type": "object", "properties": {"a": {"default": None, "type": "string"}}}
    value = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}
    decoded = decode(kinds.CUSTOM_RESOURCE_DEFINITIONS, value)
    assert decoded.obj.spec.versions is not None
    assert decoded.obj.spec.versions[0].schema is not None
    assert decoded.obj.spec.versions[0].schema.open_apiv3_schema == schema


def test_partial_objects_decode_without_the_walker() -> None:
    # Clients decode what any API server sends straight into the structs: bookmarks, nulls, unknown fields.
    for kind in kinds.ALL_KINDS:
        bare = msgspec.json.decode(
            b'{"metadata":{"resourceVersion":"7","creationTimestamp":null},"x":1}', type=kind.struct
        )
        assert bare.metadata.resource_version == "7"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
    max_leaves=8,
)


def like(kind: Kind[Any]) -> st.SearchStrategy[Any]:
    """JSON that looks like the kind, with anything at all in random places."""
    from unisono.api.decode import Shape, shape_of

    def of(shape: Shape, depth: int) -> st.SearchStrategy[Any]:
        if depth == 0:
            return json_values
        match shape.kind:
            case "object":
                known = {name: of(each.shape, depth - 1) for name, each in shape.fields.items()}
                # A type may have no field at all, such as the policy "basic" of a PodGroup: nothing to draw from then.
                some = st.sets(st.sampled_from(sorted(known)), max_size=4) if known else st.just(set[str]())
                return some.flatmap(
                    lambda names: st.fixed_dictionaries({name: known[name] | json_values for name in names})
                )
            case "array" if shape.item is not None:
                return st.lists(of(shape.item, depth - 1), max_size=2)
            case "map" if shape.item is not None:
                return st.dictionaries(st.text(max_size=5), of(shape.item, depth - 1), max_size=2)
            case "string":
                return st.sampled_from(["", "a", "Always", "10", "1Gi", "*", "PodFailed"]) | st.text(max_size=5)
            case "integer":
                return st.integers(-2, 70000)
            case "boolean":
                return st.booleans()
            case _:
                return json_values

    return of(shape_of(kind.struct), 7)


@pytest.mark.parametrize("kind", kinds.ALL_KINDS, ids=lambda kind: kind.resource)
def test_nothing_raises_on_any_json(kind: Kind[Any]) -> None:
    @settings(max_examples=examples(40), deadline=None)
    @given(like(kind) | json_values)
    def check(value: Any) -> None:
        decoded = decode(kind, value)
        apply_defaults(kind, decoded.obj)
        once = encode(decoded.obj)
        apply_defaults(kind, decoded.obj)
        assert encode(decoded.obj) == once
        for error in validate(kind, decoded.obj) + validate(kind, decoded.obj, decoded.obj) + decoded.type_errors:
            assert error.message()
            assert error.cause()["field"] == error.path
        again = decode(kind, msgspec.json.decode(once))
        assert not again.unknown_fields
        assert not again.type_errors
        assert encode(again.obj) == once

    check()


def test_a_null_in_a_map_of_times_is_no_time() -> None:
    kind = next(kind for kind in kinds.ALL_KINDS if kind.plural == "poddisruptionbudgets")
    decoded = decode(kind, {"status": {"disruptedPods": {"a": None, "b": "2026-01-01T00:00:00Z"}}})
    assert not decoded.type_errors
    assert decoded.obj.status.disrupted_pods == {"b": "2026-01-01T00:00:00Z"}


def test_lone_surrogates_are_replaced() -> None:
    decoded = decode(kinds.CONFIG_MAPS, {"data": {"a\ud800": "b\udfff", "ok": "\U0001f600"}})
    assert encode(decoded.obj)
    assert decoded.obj.data == {"a\ufffd": "b\ufffd", "ok": "\U0001f600"}


def test_yaml_booleans_reach_the_type_check() -> None:
    (document,) = yaml.load_all("metadata: {labels: {on: yes}}")
    (error,) = decode(kinds.PODS, document.value).type_errors
    assert error.message() == (
        'metadata.labels[true]: Invalid value: "boolean": metadata.labels[true] in body must be of type string: "boolean"'
    )


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (kinds.POD_GROUPS, {"spec": {"minMembers": 2}}, ["spec.minMembers", "minMember"]),
        (kinds.PODS, {"spec": {"priorityClass": "high"}}, ["spec.priorityClass", "priorityClassName"]),
        (kinds.PODS, {"labels": {"a": "b"}}, ["labels", "metadata.labels"]),
        (kinds.PODS, {"containers": []}, ["containers", "spec.containers"]),
        (kinds.PODS, {"spec": {"nodeselector": {}}}, ["spec.nodeselector", "nodeSelector"]),
        (kinds.PODS, {"spec": {"bogus": 1}}, ["spec.bogus", ""]),
    ],
)
def test_unknown_fields_are_told_with_what_is_probably_meant(
    kind: Kind[Any], value: dict[str, Any], told: list[str]
) -> None:
    path, meant = told
    hint = f" (did you mean {meant}?)" if meant else ""
    assert decode(kind, value).unknown_texts() == [f'unknown field "{path}"{hint}']


def test_what_is_meant_is_worked_out_for_a_bounded_number_of_fields() -> None:
    """It takes longest of all, and an object may have a hundred thousand that it should not have."""
    found = decode(kinds.JOBS, {"spec": {"tasks": [{"replica": 1}] * 100}})
    assert len(found.unknown_fields) == 100
    assert sum("did you mean" in text for text in found.unknown_texts()) == 64
