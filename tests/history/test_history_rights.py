"""Who sees which rows: as much as they may list now, by table; and what is asked wrongly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.backends import NOW, OPTIONS, namespace_body, opened, settle
from support.histories import ZERO
from support.serving import WebClient, serving
from support.virtual_clock import VirtualClock
from unisono.api.kind_families import RAY_JOBS
from unisono.api.kinds import CLUSTER_ROLE_BINDINGS, JOBS, NAMESPACES, ROLE_BINDINGS, ROLES
from unisono.apiserver.backend import Backend
from unisono.history.database import Database
from unisono.history.reading import StoredHistory
from unisono.history.records import Changes, Interval, JobRecord, Share
from unisono.history.sqlite import SqliteFile

REPORT, LINES = "/unisono/v1/history/report", "/unisono/v1/history/jobs"
GROUP = "rbac.authorization.k8s.io"
# Namespace, kind and name of each job that there was.
JOBS_OF = {
    "train": ("a", JOBS.resource),
    "ray": ("a", RAY_JOBS.resource),
    "secret": ("b", JOBS.resource),
    "gone": ("deleted", JOBS.resource),
}


def filled(path: Path) -> None:
    """Each job of the table ran one hour on one card."""
    database, changes = Database(SqliteFile(path)), Changes()
    database.open()
    for name, (namespace, resource) in JOBS_OF.items():
        changes.jobs[name] = JobRecord(
            name,
            "v1",
            "Job",
            resource,
            namespace,
            name,
            queue="q",
            user="ann",
            created=ZERO - 3_600_000,
            started=ZERO - 3_600_000,
            ended=ZERO - 1000,
            outcome="Completed",
            live=False,
        )
        changes.intervals[name, 1] = Interval(
            name, ZERO - 3_600_000, name, name, "n", "q", {"nvidia.com/gpu": 1000}, end=ZERO, present=False
        )
    changes.shares.append(Share(ZERO - 7_200_000, "", "nvidia.com/gpu", capacity=8000))
    database.store(changes)
    database.close()


async def binding(backend: Backend, user: str, role: str, namespace: str | None) -> None:
    kind = ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS
    role_kind = "Role" if role == "ray-only" else "ClusterRole"
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind.kind,
        "metadata": {"name": f"{user}-{role}", **({"namespace": namespace} if namespace else {})},
        "subjects": [{"kind": "User", "apiGroup": GROUP, "name": user}],
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role},
    }
    await backend.service.create(kind, namespace, body, OPTIONS)


async def people(backend: Backend) -> None:
    """The users of the table."""
    for name in ("a", "b"):
        await backend.service.create(NAMESPACES, None, namespace_body(name), OPTIONS)
    rules = [{"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": ["list"]}]
    only = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Role",
        "metadata": {"name": "ray-only", "namespace": "a"},
        "rules": rules,
    }
    await backend.service.create(ROLES, "a", only, OPTIONS)
    for user, role, namespace in (
        ("ann", "view", "a"),
        ("bob", "view", "b"),
        ("eve", "ray-only", "a"),
        ("chief", "view", None),
        ("root", "cluster-admin", None),
    ):
        await binding(backend, user, role, namespace)
    await settle(backend)


def told(web: WebClient, user: str) -> dict[str, str]:
    return {"Impersonate-User": user, "Impersonate-Group": "system:authenticated"} if user else {}


SEEN = {
    "": {"train", "ray", "secret", "gone"},
    "root": {"train", "ray", "secret", "gone"},
    "chief": {"train", "ray", "secret", "gone"},
    "ann": {"train", "ray"},
    "bob": {"secret"},
    "eve": {"ray"},
    "stranger": set[str](),
}


@pytest.mark.parametrize("user", SEEN)
async def test_rows_of_each_user(tmp_path: Path, user: str) -> None:
    filled(tmp_path / "history.db")
    source = StoredHistory(SqliteFile(tmp_path / "history.db"), VirtualClock(NOW))
    async with opened() as backend:
        await people(backend)
        async with serving(backend.service, tmp_path, history=source) as web:
            headers = told(web, user)
            lines = (await web.get(LINES, headers=headers)).json()
            assert {job["name"] for job in lines["jobs"]} == SEEN[user]
            for by in ("queue", "namespace", "user", "job", "day"):
                report = (await web.get(f"{REPORT}?by={by}", headers=headers)).json()
                assert report["total"].get("gpu_hours", 0) == pytest.approx(len(SEEN[user]))
                # How large the cluster is concerns who may see its nodes.
                assert bool(report.get("capacity")) is (user in ("", "root"))
                of_days = any(row.get("capacity") for row in report["rows"])
                assert of_days is (by == "day" and user in ("", "root"))
                if by == "namespace":
                    assert {row["key"] for row in report["rows"]} == {JOBS_OF[name][0] for name in SEEN[user]}


async def test_a_right_that_is_taken_away_is_gone_at_once(tmp_path: Path) -> None:
    filled(tmp_path / "history.db")
    source = StoredHistory(SqliteFile(tmp_path / "history.db"), VirtualClock(NOW))
    async with opened() as backend:
        await people(backend)
        async with serving(backend.service, tmp_path, history=source) as web:
            assert (await web.get(LINES, headers=told(web, "bob"))).json()["jobs"]
            await web.call("DELETE", ROLE_BINDINGS.path("b", "bob-view"))
            assert not (await web.get(LINES, headers=told(web, "bob"))).json()["jobs"]


WRONG: list[tuple[str, dict[str, Any], int, str]] = [
    (f"{REPORT}?by=moon", {}, 400, "by must be one of queue, namespace, user, job, day, and not 'moon'"),
    (f"{REPORT}?from=yesterday", {}, 400, "from must be seconds since 1970"),
    (f"{REPORT}?from=nan", {}, 400, "seconds between 1970"),
    (f"{REPORT}?from=-5", {}, 400, "seconds between 1970"),
    (f"{REPORT}?to=1e300", {}, 400, "seconds between 1970"),
    (f"{REPORT}?from=20&to=10", {}, 400, "from must be before to"),
    ("/unisono/v1/history/other", {}, 404, "not found"),
    (REPORT, {"Authorization": None}, 403, "cannot get path"),
]


@pytest.mark.parametrize(("path", "headers", "status", "message"), WRONG)
async def test_wrong_questions(tmp_path: Path, path: str, headers: dict[str, Any], status: int, message: str) -> None:
    filled(tmp_path / "history.db")
    async with (
        opened() as backend,
        serving(
            backend.service, tmp_path, history=StoredHistory(SqliteFile(tmp_path / "history.db"), VirtualClock(NOW))
        ) as web,
    ):
        reply = await web.get(path, headers=headers)
        assert (reply.status, message in reply.body.decode()) == (status, True), reply.body


@pytest.mark.parametrize(
    ("keeps", "message"), [(False, "no history is kept here"), (True, "no history has been written yet")]
)
async def test_nothing_to_report(tmp_path: Path, keeps: bool, message: str) -> None:
    source = StoredHistory(SqliteFile(tmp_path / "history.db")) if keeps else None
    async with opened() as backend, serving(backend.service, tmp_path, history=source) as web:
        reply = await web.get(REPORT)
        assert reply.status == 404
        assert message in reply.json()["message"]
