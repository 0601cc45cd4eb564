"""The history that the dashboard reads from a database: a viewer of one namespace learns nothing of another."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.dashboards import Setting, running
from unisono.history.database import Database
from unisono.history.reading import StoredHistory
from unisono.history.records import Changes, Hour, Interval, JobRecord, Share
from unisono.history.sqlite import SqliteFile

HOUR = 3_600_000
NOW = round(time.time() * 1000)
JOB, RAY, DEPLOYMENT = "jobs.batch.volcano.sh", "rayjobs.ray.io", "deployments.apps"


def filled(path: Path) -> SqliteFile:
    """A job of each kind in each namespace: of b a thousand times as many cards."""
    storage = SqliteFile(path)
    database, changes = Database(storage), Changes()
    database.open()
    for namespace, cards in (("team-a", 1), ("team-b", 1000), ("gone", 1000)):
        for resource in (JOB, RAY, DEPLOYMENT):
            uid = f"secret-{namespace}-{resource}"
            changes.jobs[uid] = JobRecord(
                uid,
                "v1",
                "Job",
                resource,
                namespace,
                uid,
                queue=f"queue-{namespace}",
                user=f"user-{namespace}",
                created=NOW - 3 * HOUR,
                started=NOW - 2 * HOUR,
                ended=NOW - HOUR,
                outcome="Failed",
                message=f"message-{namespace}",
                live=False,
            )
            changes.intervals[uid, NOW - 2 * HOUR] = Interval(
                uid,
                NOW - 2 * HOUR,
                uid,
                uid,
                f"node-{namespace}",
                f"queue-{namespace}",
                {"nvidia.com/gpu": cards * 1000},
                end=NOW - HOUR,
                outcome="Evicted",
                present=False,
            )
    changes.shares.append(Share(NOW - 9 * HOUR, "", "nvidia.com/gpu", capacity=8_765_000))
    changes.shares.append(Share(NOW - 9 * HOUR, "queue-team-b", "nvidia.com/gpu", used=4_321_000))
    database.store(changes)
    connection = database._open()
    hour = Hour((NOW - 30 * HOUR) // HOUR * HOUR, "queue-team-b", "team-b", JOB, "user-team-b", "nvidia.com/gpu")
    connection.execute("INSERT INTO hours VALUES (?, ?, ?, ?, ?, ?, ?)", (*hour, 1e9))
    database.close()
    return storage


@pytest.fixture
async def teams(tmp_path: Path) -> AsyncIterator[Setting]:
    async with running(tmp_path, page=tmp_path, history=StoredHistory(filled(tmp_path / "history.db"))) as found:
        for namespace in ("team-a", "team-b"):
            await found.put("/api/v1/namespaces", metadata={"name": namespace})
        yield found


async def asked(setting: Setting, token: str, path: str) -> Any:
    browser = setting.browser()
    assert (await browser.sign_in(token=token, namespaces=["team-a", "team-b", "gone"])).status == 200
    return await browser.call("GET", path)


TIMES = ("times", "start", "end", "created", "started", "ended", "since", "from", "to")


def timeless(value: Any) -> Any:
    """Without moments, whose digits may be any."""
    if isinstance(value, dict):
        return {key: timeless(each) for key, each in value.items() if key not in TIMES or isinstance(each, dict)}
    return [timeless(each) for each in value] if isinstance(value, list) else value


QUESTIONS = [
    *(f"/api/history/report?by={by}" for by in ("queue", "namespace", "user", "job", "day")),
    "/api/history/report?by=day&from=1",
    "/api/history/report?namespace=team-b",
    "/api/history/report?queue=queue-team-b",
    "/api/history/report?user=user-team-b",
    "/api/history/jobs",
    "/api/history/jobs?namespace=team-b",
    "/api/history/jobs?name=secret-team-b-jobs.batch.volcano.sh",
    "/api/history/shares",
    "/api/history/shares?queue=queue-team-b",
    "/api/history/places",
    "/api/history/report?by=queue' OR '1'='1",
    '/api/history/report?namespace=team-a" OR 1=1 --',
]


@pytest.mark.parametrize("path", QUESTIONS)
async def test_a_viewer_of_one_namespace_learns_nothing_of_another(teams: Setting, path: str) -> None:
    """No name, no sum and no count: a thousand cards of b would show in any of them."""
    reply = await asked(teams, await teams.viewer("team-a"), path)
    # What queues use is for who may list queues, as the server itself shows it; how large the cluster is, is not.
    hidden = ("8765",) if path.startswith("/api/history/shares") else ("team-b", "gone", "1000", "4321", "8765")
    text = json.dumps(timeless(json.loads(reply.text)))
    for told in hidden:
        assert told not in text, text
    if reply.status == 200 and "rows" in reply.json():
        answer = reply.json()
        assert answer["total"].get("gpu_hours", 0) in (0, pytest.approx(3))
        assert sum(row.get("evictions", 0) for row in answer["rows"]) in (0, 3)
        assert not answer.get("capacity")
        assert not answer.get("summed")


@pytest.mark.parametrize(
    ("rules", "kinds"),
    [
        ([("batch.volcano.sh", "jobs")], {JOB}),
        ([("apps", "deployments")], {DEPLOYMENT}),
        ([("*", "*")], {JOB, RAY, DEPLOYMENT}),
        ([("", "pods")], set()),
    ],
)
async def test_a_row_is_shown_to_who_may_list_its_kind(
    teams: Setting, rules: list[tuple[str, str]], kinds: set[str]
) -> None:
    rbac, core = "/apis/rbac.authorization.k8s.io/v1/namespaces/team-a", "/api/v1/namespaces/team-a"
    await teams.put(f"{core}/serviceaccounts", metadata={"name": "some"})
    verbs = ["get", "list", "watch"]
    granted = [{"apiGroups": [group], "resources": [resource], "verbs": verbs} for group, resource in rules]
    await teams.put(f"{rbac}/roles", metadata={"name": "some"}, rules=granted)
    await teams.put(
        f"{rbac}/rolebindings",
        metadata={"name": "some"},
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "some"},
        subjects=[{"kind": "ServiceAccount", "name": "some", "namespace": "team-a"}],
    )
    token = (await teams.put(f"{core}/serviceaccounts/some/token", spec={}))["status"]["token"]
    reply = await asked(teams, token, "/api/history/jobs")
    assert {job["name"].partition("team-a-")[2] for job in reply.json()["jobs"]} == kinds


async def test_who_may_list_everything_sees_everything(teams: Setting) -> None:
    token = await teams.account("team-a", "all", ["get", "list", "watch"], cluster=True)
    reply = await asked(teams, token, "/api/history/report?by=namespace&from=1")
    rows = {row["key"]: row["gpu_hours"] for row in reply.json()["rows"]}
    assert rows["team-a"] == pytest.approx(3)
    assert rows["gone"] == pytest.approx(3000)
    assert rows["team-b"] > 3000
    shares = await asked(teams, token, "/api/history/shares")
    assert {"queue-team-b", ""} == {line["queue"] for line in shares.json()["lines"]}


async def test_nothing_of_the_past_is_told_without_an_identity(teams: Setting) -> None:
    for path in QUESTIONS:
        assert (await teams.browser().call("GET", path)).status == 401
