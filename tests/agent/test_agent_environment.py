"""Variables and commands of containers."""

from __future__ import annotations

import pytest
from agent_node import manifest
from hypothesis import given
from hypothesis import strategies as st

from unisono.agent.environment import (
    Gathered,
    MissingSource,
    command_line,
    container_environment,
    expand,
    field_value,
    references,
    resource_value,
)
from unisono.api.core import ResourceFieldSelector
from unisono.errors import AgentError

KNOWN = {"VAR_A": "A", "VAR_B": "B", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(VAR_A)", "A"),
        ("___$(VAR_B)___", "___B___"),
        ("$(VAR_A)$(VAR_B)", "AB"),
        ("$(EMPTY)", ""),
        ("$(NOPE)", "$(NOPE)"),
        ("$$(VAR_A)", "$(VAR_A)"),
        ("$$$(VAR_A)", "$A"),
        ("$$$$(VAR_A)", "$$(VAR_A)"),
        ("$VAR_A", "$VAR_A"),
        ("$(VAR_A", "$(VAR_A"),
        ("a$", "a$"),
        ("$$", "$"),
        ("$()", "$()"),
        ("f000-$(VAR_A)-$)", "f000-A-$)"),
        ("${VAR_A}", "${VAR_A}"),
        ("", ""),
    ],
)
def test_expansion(text: str, expected: str) -> None:
    assert expand(text, KNOWN) == expected


@given(st.text(alphabet="$()AB ", max_size=20))
def test_expansion_never_fails_and_escaping_keeps_a_text(text: str) -> None:
    expand(text, {"A": "x"})
    assert expand(text.replace("$", "$$"), {"A": "x"}) == text


def environment(container: dict[str, object], sources: Gathered) -> dict[str, str]:
    pod = manifest("p", ["true"], container=container)
    return container_environment(
        pod, pod.spec.containers[0], sources, pod_ip="127.64.0.9", host_ip="10.0.0.1", allocatable={"cpu": 4000}
    )


SOURCES = Gathered(
    {"settings": {"A": b"1", "B": b"2", "bad key!": b"3"}},
    {"keys": {"TOKEN": b"t", "bin": b"\xff"}},
)


def test_env_from_with_prefix_and_override() -> None:
    container = {
        "envFrom": [{"prefix": "CFG_", "configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}],
        "env": [{"name": "TOKEN", "value": "$(CFG_A)"}],
    }
    found = environment(container, SOURCES)
    assert found["CFG_A"] == "1"
    assert found["CFG_B"] == "2"
    assert found["TOKEN"] == "1"
    assert "CFG_bad key!" not in found


def test_later_variables_see_earlier_ones_only() -> None:
    container = {"env": [{"name": "X", "value": "$(Y)"}, {"name": "Y", "value": "1"}, {"name": "Z", "value": "$(Y)"}]}
    assert environment(container, SOURCES) == {"X": "$(Y)", "Y": "1", "Z": "1"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "nope", "key": "A"}}, 'couldn\'t find key A in ConfigMap "nope"'),
        ({"secretKeyRef": {"name": "keys", "key": "nope"}}, 'couldn\'t find key nope in Secret "keys"'),
    ],
)
def test_missing_sources(source: dict[str, object], message: str) -> None:
    with pytest.raises(MissingSource) as error:
        environment({"env": [{"name": "X", "valueFrom": source}]}, SOURCES)
    assert str(error.value) == message
    optional = {kind: {**ref, "optional": True} for kind, ref in source.items()}  # type: ignore[dict-item]
    assert environment({"env": [{"name": "X", "valueFrom": optional}]}, SOURCES) == {}


def test_missing_env_from() -> None:
    with pytest.raises(MissingSource, match='secret "nope" not found'):
        environment({"envFrom": [{"secretRef": {"name": "nope"}}]}, SOURCES)
    assert environment({"envFrom": [{"secretRef": {"name": "nope", "optional": True}}]}, SOURCES) == {}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "default"),
        ("spec.nodeName", "here"),
        ("status.podIP", "127.64.0.9"),
        ("status.hostIP", "10.0.0.1"),
        ("metadata.labels['app']", "p"),
        ("metadata.annotations['nope']", ""),
        ("metadata.labels", 'app="p"'),
    ],
)
def test_fields(path: str, expected: str) -> None:
    assert field_value(manifest("p"), path, pod_ip="127.64.0.9", host_ip="10.0.0.1") == expected


def test_unknown_field() -> None:
    with pytest.raises(AgentError, match=r"spec\.containers"):
        field_value(manifest("p"), "spec.containers", pod_ip="", host_ip="")


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("limits.cpu", None, "2"),
        ("limits.cpu", "1m", "1500"),
        ("requests.cpu", "1m", "500"),
        ("limits.memory", None, "268435456"),
        ("limits.memory", "1Mi", "256"),
        ("requests.memory", "1Mi", "256"),
        ("limits.ephemeral-storage", "1", "1000"),
        ("limits.nvidia.com/gpu", None, "2"),
    ],
)
def test_resources(resource: str, divisor: str | None, expected: str) -> None:
    limits = {"cpu": "1500m", "memory": "256Mi", "nvidia.com/gpu": 2}
    pod = manifest("p", container={"resources": {"limits": limits, "requests": {"cpu": "500m"}}})
    selector = ResourceFieldSelector(resource=resource, divisor=divisor)
    assert resource_value(pod, selector, "main", {"ephemeral-storage": 1000}) == expected


def test_command_line() -> None:
    pod = manifest("p", ["echo", "$(A)"], container={"args": ["$(B)"]})
    assert command_line(pod.spec.containers[0], {"A": "1", "B": "2"}) == ["echo", "1", "2"]
    with pytest.raises(AgentError, match="give the container a command"):
        command_line(manifest("p").spec.containers[0], {})


def test_references_of_a_pod() -> None:
    pod = manifest(
        "p",
        container={
            "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
            "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}],
        },
        volumes=[
            {"name": "v", "secret": {"secretName": "d"}},
            {"name": "w", "projected": {"sources": [{"configMap": {"name": "e"}}, {"secret": {"name": "f"}}]}},
        ],
    )
    found = references(pod)
    assert (found.config_maps, found.secrets) == ({"a", "c", "e"}, {"b", "d", "f"})
