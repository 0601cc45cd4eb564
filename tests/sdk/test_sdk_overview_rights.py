"""What the overview says to a user who may not see everything: never that what is unseen is not there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unisono.api.decode import decode
from unisono.api.groups.admission_registration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from unisono.api.kinds import LEASES, NODES, POD_GROUPS, PODS, QUEUES, SERVICES
from unisono.api.verdict import Cause, Verdict, encode
from unisono.cli.overview_lines import not_shown, overview_lines
from unisono.errors import ApiError, NotFound
from unisono.kube.client import Listing
from unisono.sdk.overview.overview import Overview, read_overview
from unisono.sdk.overview.queues import all_groups, queue_views

VERDICT = encode(Verdict(job="mine/train", cause=Cause.NODES_FULL, message="no room for 2 pods"))
OBJECTS = {
    QUEUES.plural: [decode(QUEUES, {"metadata": {"name": "q"}}).obj],
    NODES.plural: [decode(NODES, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4"}}}).obj],
    POD_GROUPS.plural: [
        decode(
            POD_GROUPS,
            {
                "metadata": {"name": "train", "namespace": "mine", "annotations": {"unisono.io/verdict": VERDICT}},
                "spec": {"queue": "q"},
                "status": {"phase": "Pending"},
            },
        ).obj
    ],
}


class _Clock:
    def time(self) -> float:
        return 1_800_000_000.0


class _Transport:
    clock = _Clock()


class _Server:
    """Serves one user's view: kinds that may be listed everywhere, and those of one namespace."""

    transport = _Transport()

    def __init__(self, everywhere: set[str], mine: set[str]) -> None:
        self._everywhere, self._mine = everywhere, mine

    async def request(self, *_: str) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, b"ok"

    async def list(self, kind: Any, namespace: str | None = None, *, field_selector: str = "") -> Listing[Any]:
        if kind.plural not in self._everywhere and not (namespace == "mine" and kind.plural in self._mine):
            raise ApiError(f"{kind.plural} is forbidden", code=403)
        return Listing(OBJECTS.get(kind.plural, []), "1")


ALL = {kind.plural for kind in (LEASES, NODES, PODS, QUEUES, POD_GROUPS)}
JOBS = {PODS.plural, POD_GROUPS.plural}


async def look(everywhere: set[str], namespace: str) -> Overview:
    return await read_overview(_Server(everywhere, JOBS), namespace)  # type: ignore[arg-type]


async def test_a_user_of_one_namespace_sees_its_jobs_and_no_false_alarm() -> None:
    found = await look({QUEUES.plural}, "mine")
    assert (found.unseen, found.within) == (("leases", "nodes"), "mine")
    lines = overview_lines(found)
    assert "  Not shown: leases, nodes, which you may not list." in lines
    assert "  Jobs and pods are those of namespace mine: you may not list others." in lines
    assert not any("never told" in line or line.startswith("Nodes") for line in lines)
    assert "Waiting  1 job" in lines and "    no room for 2 pods" in lines
    assert ["q", "Unknown", "1", "-", "-"] in [line.split()[:5] for line in lines], "others may have jobs there"
    assert [part.name for part in found.components if part.problem] == []


async def test_a_user_of_another_namespace_is_told_that_jobs_are_not_shown() -> None:
    found = await look({QUEUES.plural}, "default")
    assert (found.unseen, found.within) == (("leases", "nodes", "podgroups", "pods"), "")
    assert not any(line.startswith(("Waiting", "Running")) for line in overview_lines(found))
    assert not_shown(found, ("podgroups", "pods")) == [
        "Not shown: podgroups, pods, which you may not list.",
        "A namespace whose jobs you may list can be named with --namespace.",
    ]


class _Refusing(_Server):
    """Whose pods are refused, as events tell that may be read in one namespace."""

    async def request(self, *asked: str, **_: Any) -> tuple[int, dict[str, str], bytes]:
        if not asked[1].endswith("/events"):
            return 200, {}, b"ok"
        told = {"involvedObject": {"uid": "u"}, "message": "pods are forbidden: no such account"}
        return (
            (200, {}, json.dumps({"items": [told]}).encode()) if "/namespaces/mine/" in asked[1] else (403, {}, b"{}")
        )


async def test_a_user_of_one_namespace_is_told_why_pods_are_refused_there(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    meta = {"name": "train", "namespace": "mine", "ownerReferences": [owner]}
    bare = decode(POD_GROUPS, {"metadata": meta, "spec": {"queue": "q"}, "status": {"phase": "Inqueue"}}).obj
    monkeypatch.setitem(OBJECTS, POD_GROUPS.plural, [bare])
    found = await read_overview(_Refusing({QUEUES.plural}, JOBS), "mine")  # type: ignore[arg-type]
    assert [job.waiting for job in found.waiting] == ["its pods are refused: pods are forbidden: no such account"]


async def test_what_nodes_have_left_is_not_told_from_a_part_of_the_pods() -> None:
    assert (await look({*ALL} - JOBS, "mine")).resources == []


async def test_who_sees_all_is_told_of_nothing_more() -> None:
    found = await look(ALL, "default")
    assert (found.unseen, found.within, not_shown(found)) == ((), "", [])


@pytest.mark.parametrize(("everywhere", "waiting"), [(ALL, 1), (ALL - JOBS, None)])
async def test_queues_are_shown_to_who_may_not_count_their_jobs(everywhere: set[str], waiting: int | None) -> None:
    groups = await all_groups(_Server(everywhere, set()))  # type: ignore[arg-type]
    (view,) = queue_views(OBJECTS["queues"], groups)
    assert view.groups.get("Pending") == waiting


async def test_webhooks_that_nothing_answers_at_are_named() -> None:
    def configuration(name: str, service: str, policy: str = "Fail") -> Any:
        hook = {
            "name": name,
            "clientConfig": {"service": {"name": service, "namespace": "default"}},
            "failurePolicy": policy,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        value = {"metadata": {"name": name}, "webhooks": [hook]}
        return decode(VALIDATING_WEBHOOKS, {**_typed(VALIDATING_WEBHOOKS), **value}).obj

    service = decode(
        SERVICES, {**_typed(SERVICES), "metadata": {"name": "there"}, "spec": {"selector": {"a": "b"}}}
    ).obj

    class Hooked(_Server):
        async def list(self, kind: Any, namespace: str | None = None, *, field_selector: str = "") -> Listing[Any]:
            if kind is VALIDATING_WEBHOOKS:
                every = [("a.x", "gone"), ("b.x", "there"), ("validatejob.volcano.sh", "volcano-admission-service")]
                may = configuration("c.x", "gone", "Ignore")
                return Listing([*(configuration(*one) for one in every), may], "1")
            if kind is MUTATING_WEBHOOKS or kind is PODS:
                return Listing([], "1")
            return await super().list(kind, namespace, field_selector=field_selector)

        async def get(self, kind: Any, name: str, namespace: str | None = None) -> Any:
            if name != "there":
                raise NotFound(f"{name} is not there", code=404)
            return service

        async def request(self, method: str, path: str, **_: Any) -> tuple[int, dict[str, str], bytes]:
            return 200, {}, b'{"gitVersion": "v1.36.0+unisono.1"}'

    found = await read_overview(Hooked(ALL, JOBS), "mine")  # type: ignore[arg-type]
    told = {part.name: part.problem for part in found.components if part.name.startswith("webhook ")}
    assert told == {
        "webhook a.x": "it stops what it is asked about: service default/gone is not there",
        "webhook b.x": "it stops what it is asked about: service default/there has no pod that is ready",
    }


def _typed(kind: Any) -> dict[str, str]:
    return {"apiVersion": kind.api_version, "kind": kind.kind}
