"""Autoscalers, ingresses and replication controllers: defaults, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.kind import Kind
from unisono.api.kind_families import (
    HORIZONTAL_POD_AUTOSCALERS,
    INGRESS_CLASSES,
    INGRESSES,
    REPLICATION_CONTROLLERS,
    SERVING_KINDS,
)
from unisono.api.validation import validate

TARGET = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
WEB = {"service": {"name": "web", "port": {"number": 80}}}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
GOOD: dict[str, dict[str, Any]] = {
    "HorizontalPodAutoscaler": {"scaleTargetRef": TARGET, "maxReplicas": 3},
    "Ingress": {
        "rules": [{"host": "a.example.com", "http": {"paths": [{"pathType": "Prefix", "path": "/", "backend": WEB}]}}]
    },
    "IngressClass": {"controller": "example.com/ingress"},
    "ReplicationController": {"template": TEMPLATE},
}


def made(kind: Kind[Any], spec: dict[str, Any], **metadata: Any) -> Any:
    value = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "one", **({"namespace": "default"} if kind.namespaced else {}), **metadata},
        "spec": spec,
    }
    decoded = decode(kind, value)
    assert decoded.unknown_fields == [] and decoded.type_errors == []
    apply_defaults(kind, decoded.obj)
    return decoded.obj


def messages(kind: Kind[Any], spec: dict[str, Any], **metadata: Any) -> list[str]:
    return [error.message() for error in validate(kind, made(kind, spec, **metadata))]


@pytest.mark.parametrize("kind", SERVING_KINDS, ids=lambda kind: kind.kind)
def test_good_ones_are_good_and_defaults_are_stable(kind: Kind[Any]) -> None:
    obj = made(kind, GOOD[kind.kind])
    assert validate(kind, obj) == []
    again = made(kind, GOOD[kind.kind])
    apply_defaults(kind, again)
    assert again == obj


def test_an_autoscaler_watches_the_processors_by_default() -> None:
    spec = made(HORIZONTAL_POD_AUTOSCALERS, {**GOOD["HorizontalPodAutoscaler"], "behavior": {"scaleUp": {}}}).spec
    (metric,) = spec.metrics
    assert (spec.min_replicas, metric.resource.name, metric.resource.target.average_utilization) == (1, "cpu", 80)
    assert [(one.type, one.value) for one in spec.behavior.scale_up.policies] == [("Pods", 4), ("Percent", 100)]
    assert [(one.type, one.value) for one in spec.behavior.scale_down.policies] == [("Percent", 100)]
    assert spec.behavior.scale_down.stabilization_window_seconds is None


def test_a_replication_controller_takes_selector_and_labels_from_its_template() -> None:
    obj = made(REPLICATION_CONTROLLERS, GOOD["ReplicationController"])
    assert (obj.spec.selector, obj.metadata.labels, obj.spec.replicas) == ({"app": "web"}, {"app": "web"}, 1)


def scaled(**spec: Any) -> dict[str, Any]:
    return {**GOOD["HorizontalPodAutoscaler"], **spec}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (scaled(maxReplicas=0), "spec.maxReplicas: Required value: must be set and greater than 0"),
        (scaled(maxReplicas=-1), "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1"),
        (scaled(minReplicas=0), "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"),
        (scaled(minReplicas=5), "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"),
        (scaled(scaleTargetRef={"kind": "Deployment"}), "spec.scaleTargetRef.name: Required value"),
        (scaled(scaleTargetRef={**TARGET, "name": "a/b"}), 'spec.scaleTargetRef.name: Invalid value: "a/b"'),
        (scaled(metrics=[{"type": "Pods"}]), "spec.metrics[0].pods: Required value: must populate information for"),
        (scaled(metrics=[{**CPU, "type": "Other"}]), 'spec.metrics[0].type: Unsupported value: "Other"'),
        (
            scaled(
                metrics=[
                    {
                        **CPU,
                        "type": "Resource",
                        "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": 1}},
                    }
                ]
            ),
            "spec.metrics[0].external: Forbidden: must populate the given metric source only",
        ),
        (
            scaled(metrics=[{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]),
            "must set either a target raw value or a target utilization",
        ),
        (
            scaled(
                metrics=[
                    {
                        "type": "Pods",
                        "pods": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "-1"}},
                    }
                ]
            ),
            'spec.metrics[0].pods.target.averageValue: Invalid value: "-1": must be positive',
        ),
        (
            scaled(behavior={"scaleDown": {"stabilizationWindowSeconds": 4000}}),
            "scaleDown.stabilizationWindowSeconds: Invalid value: 4000: must be less than or equal to 3600",
        ),
        (scaled(behavior={"scaleUp": {"policies": []}}), "must specify at least one Policy"),
        (
            scaled(behavior={"scaleUp": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 1}]}}),
            "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
        ),
    ],
)
def test_wrong_autoscalers(spec: dict[str, Any], message: str) -> None:
    assert any(message in found for found in messages(HORIZONTAL_POD_AUTOSCALERS, spec))


def routed(**path: Any) -> dict[str, Any]:
    return {"rules": [{"http": {"paths": [{"pathType": "Prefix", "path": "/", "backend": WEB, **path}]}}]}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"),
        ({"rules": [{"host": "1.2.3.4"}]}, "must be a DNS name, not an IP address"),
        ({"rules": [{"host": "a.*.com"}]}, "a wildcard DNS-1123 subdomain must start with '*.'"),
        ({"rules": [{"http": {}}]}, "spec.rules[0].http.paths: Required value"),
        (routed(pathType=""), "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"),
        (routed(pathType="Regex"), 'supported values: "Exact", "ImplementationSpecific", "Prefix"'),
        (routed(path="x"), 'spec.rules[0].http.paths[0].path: Invalid value: "x": must be an absolute path'),
        (routed(path="/a//b"), "must not contain '//'"),
        (routed(path="/a/.."), "cannot end with '/..'"),
        (routed(backend={}), "resource or service backend is required"),
        (routed(backend={"service": {"name": "web"}}), "port name or number is required"),
        (
            routed(backend={"service": {"name": "web", "port": {"name": "a", "number": 1}}}),
            "both port name & port number",
        ),
        (
            {"defaultBackend": {**WEB, "resource": {"kind": "Bucket", "name": "b"}}},
            'spec.defaultBackend: Invalid value: "": cannot set both resource and service backends',
        ),
        ({**routed(), "tls": [{"hosts": ["A"]}]}, 'spec.tls[0].hosts[0]: Invalid value: "A"'),
        ({**routed(), "ingressClassName": "A"}, 'spec.ingressClassName: Invalid value: "A"'),
    ],
)
def test_wrong_ingresses(spec: dict[str, Any], message: str) -> None:
    assert any(message in found for found in messages(INGRESSES, spec))


def test_an_ingress_says_its_class_once() -> None:
    annotations = {"kubernetes.io/ingress.class": "other"}
    found = messages(INGRESSES, {**routed(), "ingressClassName": "one"}, annotations=annotations)
    assert any("must match `ingressClassName` when both are specified" in one for one in found)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "spec.controller: Required value"),
        ({"controller": "ingress"}, "must be a domain-prefixed path"),
        (
            {"controller": "a.io/b", "parameters": {"kind": "C", "name": "n", "scope": "Namespace"}},
            "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'",
        ),
        (
            {"controller": "a.io/b", "parameters": {"kind": "C", "name": "n", "namespace": "x"}},
            "spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'",
        ),
    ],
)
def test_wrong_ingress_classes(spec: dict[str, Any], message: str) -> None:
    assert any(message in found for found in messages(INGRESS_CLASSES, spec))


def test_the_controller_of_an_ingress_class_stays() -> None:
    old, new = (made(INGRESS_CLASSES, {"controller": f"example.com/{name}"}) for name in ("a", "b"))
    assert [error.message() for error in validate(INGRESS_CLASSES, new, old)] == [
        'spec.controller: Invalid value: "example.com/b": field is immutable'
    ]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "spec.template: Required value"),
        ({"template": TEMPLATE, "selector": {"app": "other"}}, "`selector` does not match template `labels`"),
        ({"template": {**TEMPLATE, "metadata": {}}}, "spec.selector: Required value"),
        (
            {"template": TEMPLATE, "replicas": -1},
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}},
            'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        ),
    ],
)
def test_wrong_replication_controllers(spec: dict[str, Any], message: str) -> None:
    assert any(message in found for found in messages(REPLICATION_CONTROLLERS, spec))
