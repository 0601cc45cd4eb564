"""A gang that is admitted and can never be placed keeps nothing from a neighbour that fits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support import impossible
from support.impossible import KINDS, Impossible
from unisono import engine
from unisono.api.decode import decode
from unisono.api.kinds import find
from unisono.cluster.state import ClusterState
from unisono.engine.config_file.reader import load_config

_HELD, _NEXT = "/".join(impossible.GANG), "/".join(impossible.NEIGHBOUR)
_CYCLES = 2


class _Cluster:
    """Objects as JSON, and the state that is told of them."""

    def __init__(self, bodies: list[Any]) -> None:
        self.state, self.objects = ClusterState(), dict[str, Any]()
        for body in [impossible.queue("default"), *bodies]:
            self.put(body)

    def put(self, body: Any) -> None:
        meta = body["metadata"]
        key = f"{body['kind']} {meta['namespace']}/{meta['name']}" if meta.get("namespace") else _key(body)
        kind = find(body["apiVersion"], body["kind"])
        assert kind is not None
        decoded = decode(kind, body)
        assert not decoded.unknown_fields and not decoded.type_errors, (body, decoded)
        self.state.apply("MODIFIED" if key in self.objects else "ADDED", kind, decoded.obj)
        self.objects[key] = body

    def remove(self, key: str) -> None:
        body = self.objects.pop(key)
        kind = find(body["apiVersion"], body["kind"])
        assert kind is not None
        self.state.apply("DELETED", kind, decode(kind, body).obj)

    def patch(self, key: str, patch: Any) -> None:
        self.put(_merged(self.objects[key], patch))

    def carry_out(self, decisions: Any) -> None:
        for update in decisions.pod_groups:
            self.patch(f"PodGroup {update.key}", {"status": {"phase": update.phase}})
        for bind in decisions.binds:
            patch = {"spec": {"nodeName": bind.node}, "status": {"phase": "Running"}}
            self.patch(f"Pod {bind.namespace}/{bind.pod}", patch)

    def running(self, job: tuple[str, str]) -> int:
        """Pods of a PodGroup that have a node."""
        start = f"Pod {'/'.join(job)}"
        return sum(bool(body["spec"].get("nodeName")) for key, body in self.objects.items() if key.startswith(start))

    def phase(self, key: str) -> str:
        return str(self.objects[f"PodGroup {key}"]["status"]["phase"])


def _key(body: Any) -> str:
    return f"{body['kind']} {body['metadata']['name']}"


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    new = json.loads(json.dumps(old)) if isinstance(old, dict) else {}
    for key, value in patch.items():
        new[key] = _merged(new.get(key), value)
    return new


def _lived(kind: Impossible, phase: str, neighbour: list[Any] | None = None) -> tuple[_Cluster, str]:
    """The cluster two cycles after the neighbour came, and what is said of it."""
    settings = load_config(kind.config)
    cluster = _Cluster([impossible.queue("others"), *kind.bodies()])
    now = 1_767_225_600.0 + 120.0
    if phase == "Inqueue":
        cluster.patch(f"PodGroup {_HELD}", {"status": {"phase": "Inqueue"}})
    else:
        cluster.carry_out(engine.run(cluster.state.snapshot(), settings, now, 0, advice=False))
    for key, patch in (kind.later or {}).items():
        if patch is None:
            cluster.remove(key)
        else:
            cluster.patch(key, patch)
    for body in neighbour or kind.beside():
        cluster.put(body)
    said = ""
    for cycle in range(1, _CYCLES + 1):
        decisions = engine.run(cluster.state.snapshot(), settings, now + 60.0 * cycle, 0, advice=False)
        cluster.carry_out(decisions)
        verdict = decisions.verdicts.get(_NEXT)
        said = verdict.message if verdict is not None else ""
    return cluster, said


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        pytest.param(name, phase, id=f"{name}, {phase}")
        for name, kind in KINDS.items()
        for phase in ("Pending", "Inqueue")
        if phase == "Inqueue" or not kind.later
    ],
)
def test_nobody_waits_for_a_gang_that_can_never_be_placed(name: str, phase: str) -> None:
    cluster, said = _lived(KINDS[name], phase)
    assert cluster.running(impossible.NEIGHBOUR) == impossible.NEIGHBOUR_PODS, f"{cluster.phase(_NEXT)}: {said}"
    assert cluster.running(impossible.GANG) == 0, "the gang is possible after all"


_ASKED_LATER = "what is said of volumes, claims, cards and groups of nodes is not known yet"
_CLAIMING = {
    "volume claim missing": _ASKED_LATER,
    "volume claim never bound": _ASKED_LATER,
    "volume claim that no volume fits": _ASKED_LATER,
    "volume in a zone without nodes": _ASKED_LATER,
    "resource claim missing": _ASKED_LATER,
    "resource claim that no device meets": _ASKED_LATER,
    "resource claim for more devices than a node has": _ASKED_LATER,
    "device class missing": _ASKED_LATER,
    "spread over a label that no node has": _ASKED_LATER,
    "card memory": _ASKED_LATER,
    "card model": _ASKED_LATER,
    "node group of the queue": _ASKED_LATER,
    "affinity to nobody": "others may come to be near",
    "affinity over a label that no node has": "as before",
    "affinity to itself on nodes too small": "pods are not counted by domain",
    "affinity to itself in zones too small": "as before",
    "anti-affinity to itself": "as before",
    "anti-affinity to itself over zones": "as before",
    "spread over more domains than there are": "as before",
    "hard topology, domains too small": "as before",
    "sub-group, domains too small": "as before",
    "volume for one pod": "one pod could have it",
    "resource claim on one node for a gang of several": "one node could take as many",
    "host port taken": "by pods that might go",
    "capability": "a queue claims up to its capability, as with Volcano",
    "capability of another resource": "as before",
    "capability of pods": "as before",
    "share by weight": "it would start if the others asked for less",
    "guarantee of another queue": "it would start if there were less guaranteed",
}
"""Gangs of which each pod alone, or fewer of them, could be placed."""


@pytest.mark.parametrize("name", [name for name in KINDS if name not in _CLAIMING])
def test_a_gang_that_can_never_be_placed_claims_no_share(name: str) -> None:
    """Another queue of the same weight asks for the whole cluster, pod by pod."""
    kind = KINDS[name]
    pods = impossible.NODES * (3 if name == "more pods than nodes take" else impossible.CPUS)
    cluster, said = _lived(kind, "Inqueue", kind.beside(pods, queue="others", minMember=1))
    assert cluster.running(impossible.NEIGHBOUR) == pods, f"{cluster.phase(_NEXT)}: {said}"
