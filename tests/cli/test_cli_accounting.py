"""``unisono report`` and ``sacct``: tables, CSV, options, and clusters that keep no history."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from unisono.api.conditions import DEADLINE_EXCEEDED, pod_failure
from unisono.cli.accounting.tables import (
    SACCT_COLUMNS,
    report_csv,
    report_lines,
    sacct_columns,
    sacct_csv,
    sacct_lines,
    sacct_states,
)
from unisono.cli.main import cli
from unisono.errors import UnisonoError
from unisono.history.report import Accounts, JobLine, Report, Row, SizeRow, Waiting

START, END = 1_700_000_000.0, 1_700_086_400.0
ROWS = [
    Row(
        "research",
        ended={"Completed": 3, "Failed": 1, "Deleted": 2},
        hours={"cpu": 96.0, "nvidia.com/gpu": 48.0, "memory": 2.0**40},
        gpu_hours=48.0,
        cpu_hours=96.0,
        waiting=Waiting(4, 30.0, 7260.0, 7260.0),
        evictions=1,
        failures=2,
    ),
    Row("=cmd|' /C calc'!A0", hours={"cpu": 1.0}, cpu_hours=1.0),
]
TOTAL = Row("total", ended={"Completed": 3}, gpu_hours=48.0, cpu_hours=97.0)
CAPACITY = {"cpu": 960.0, "nvidia.com/gpu": 192.0, "memory": 2.0**42}


def report(**changes: Any) -> Report:
    sizes = [SizeRow("research", "2-8 GPUs", Waiting(4, 30.0, 7260.0, 7260.0))]
    return msgspec.structs.replace(Report(START, END, "queue", ROWS, TOTAL, sizes, CAPACITY), **changes)


JOB = JobLine(
    "uid-1",
    "Job",
    "team-a",
    "train",
    "research",
    "ann",
    "Failed",
    START,
    START + 60,
    START + 3725,
    3665.0,
    gpus=8.0,
    cpus=4.5,
    pods=2,
    exit_code=3,
    gpu_hours=8.1,
)


def test_the_table() -> None:
    lines = report_lines(report())
    assert lines[0] == "2023-11-14T22:13:20Z to 2023-11-15T22:13:20Z"
    assert lines[2].split("   ")[0].strip() == "QUEUE"
    words = lines[3].split()
    assert words[:7] == ["research", "6", "3", "1", "2", "48.00", "96.00"]
    assert "25.0 %" in lines[3]  # 48 of 192 hours of cards
    assert "10.0 %" in lines[3]
    assert "30 s" in lines[3]
    assert "2 h 1 min" in lines[3]
    assert lines[5].startswith("total")
    assert any(line.split()[:3] == ["research", "2-8", "GPUs"] for line in lines[6:])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"summed": True}, "sums of hours alone"),
        ({"more": True}, "There are more rows"),
        ({"since": START + 3600}, "The history begins at 2023-11-14T23:13:20Z."),
    ],
)
def test_what_is_to_be_known_of_a_table(changes: dict[str, Any], said: str) -> None:
    assert said not in "\n".join(report_lines(report()))
    assert said in "\n".join(report_lines(report(**changes)))


def test_use_is_told_where_the_capacity_is_known() -> None:
    assert "USED" not in report_lines(report(capacity={}))[2]
    assert "CPUS USED" in report_lines(report(capacity={"cpu": 1.0}))[2]
    assert "GPUS USED" not in report_lines(report(capacity={"cpu": 1.0}))[2]


def test_a_day_is_compared_with_what_there_was_on_it() -> None:
    days = [Row("2026-11-01", gpu_hours=12.0, capacity={"nvidia.com/gpu": 24.0}), Row("2026-11-02", gpu_hours=1.0)]
    lines = report_lines(report(by="day", rows=days, sizes=[]))
    assert "50.0 %" in lines[3]
    assert "%" not in lines[4]
    assert "25.0 %" in lines[5]


def test_csv_has_every_resource_and_no_formulas() -> None:
    rows = list(csv.DictReader(io.StringIO(report_csv(report()))))
    assert rows[0]["queue"] == "research"
    assert (rows[0]["stopped"], rows[0]["gpu_use"], rows[0]["wait_p95"]) == ("2", "0.25", "7260.0")
    assert float(rows[0]["hours:memory"]) == 2.0**40
    assert rows[1]["hours:nvidia.com/gpu"] == ""
    assert rows[1]["queue"].startswith("'=")


def test_sacct_has_slurms_columns() -> None:
    lines = sacct_lines(Accounts(START, END, [JOB]))
    assert re.split(" {3,}", lines[0]) == [
        *("JOBID", "USER", "PARTITION", "STATE", "SUBMIT", "START", "END", "ELAPSED"),
        *("ALLOCTASKS", "ALLOCCPUS", "ALLOCGPUS", "EXITCODE"),
    ]
    times = ("2023-11-14T22:13:20Z", "2023-11-14T22:14:20Z", "2023-11-14T23:15:25Z")
    assert lines[1].split() == ["train", "ann", "research", "FAILED", *times, "1:01:05", "2", "4.5", "8", "3:0"]
    [row] = csv.DictReader(io.StringIO(sacct_csv(Accounts(START, END, [JOB]))))
    assert (row["namespace"], row["uid"], row["gpu_hours"]) == ("team-a", "uid-1", "8.1")


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("Completed", "COMPLETED"),
        ("Aborted", "CANCELLED"),
        ("Deleted", "CANCELLED"),
        ("Running", "RUNNING"),
        ("Pending", "PENDING"),
        ("Other", "OTHER"),
    ],
)
def test_states_have_slurms_names(state: str, shown: str) -> None:
    line = sacct_lines(Accounts(START, END, [msgspec.structs.replace(JOB, state=state)]))[1]
    assert shown in line.split()


@pytest.mark.parametrize(
    ("state", "message", "shown"),
    [
        ("Terminated", pod_failure("late-rank-0", [143], DEADLINE_EXCEEDED), "TIMEOUT"),
        ("Failed", pod_failure("late-rank-0", [], DEADLINE_EXCEEDED), "TIMEOUT"),
        ("Failed", "Job was active longer than specified deadline", "TIMEOUT"),
        ("Failed", "TrainJob exceeded its active deadline", "TIMEOUT"),
        ("Failed", "The RayJob has passed its deadline of 60 s; it started at 2026-11-25T18:00:00Z.", "TIMEOUT"),
        ("Terminated", pod_failure("late-rank-0", [1], None), "FAILED"),
        ("Aborted", pod_failure("late-rank-0", [], "Evicted"), "FAILED"),
        ("Terminated", "asked for by command early-terminatejob-g8jnk", "CANCELLED"),
        ("Completed", pod_failure("late-rank-0", [1], None), "COMPLETED"),
    ],
)
def test_a_stopped_job_has_the_state_of_its_cause(state: str, message: str, shown: str) -> None:
    job = msgspec.structs.replace(JOB, state=state, message=message)
    assert shown in sacct_lines(Accounts(START, END, [job]))[1].split()
    assert len(sacct_lines(Accounts(START, END, [job]), states=sacct_states(shown))) == 2


def run(monkeypatch: pytest.MonkeyPatch, answer: Any, *words: str) -> tuple[Result, list[tuple[str, dict[str, str]]]]:
    """A command whose server gives this answer; and what it was asked."""
    asked: list[tuple[str, dict[str, str]]] = []

    class Client:
        @property
        def transport(self) -> Client:
            return self

        async def authorization(self) -> str:
            return "Bearer token"

        async def __aenter__(self) -> Client:
            return self

        async def __aexit__(self, *_: object) -> None:
            pass

        async def request(
            self, _method: str, path: str, *, params: dict[str, str], **_options: Any
        ) -> tuple[int, dict[str, str], bytes]:
            asked.append((path, params))
            status, body = answer if isinstance(answer, tuple) else (200, msgspec.json.encode(answer))
            return status, {}, body

    monkeypatch.setattr("unisono.cli.connection.connect", lambda _where: Client())
    return CliRunner().invoke(cli, words), asked


def test_what_the_server_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "report --from 2026-11-01T00:00Z --to 2026-11-02T00:00Z --by day -q research -u ann -n team-a -o json"
    done, asked = run(monkeypatch, report(by="day"), *words.split())
    assert done.exit_code == 0, done.output
    assert asked == [
        (
            "/unisono/v1/history/report",
            {
                "by": "day",
                "queue": "research",
                "user": "ann",
                "from": "1793491200.0",
                "to": "1793577600.0",
                "namespace": "team-a",
            },
        )
    ]
    assert json.loads(done.output)["rows"][0]["gpu_hours"] == 48.0
    done, asked = run(monkeypatch, Accounts(START, END, [JOB], more=True), "sacct", "-j", "train", "-p", "research")
    assert asked[0][0] == "/unisono/v1/history/jobs"
    assert asked[0][1].keys() == {"name", "queue", "from", "to"}
    assert float(asked[0][1]["to"]) - float(asked[0][1]["from"]) == pytest.approx(7 * 86400)
    assert "these are the latest" in done.output


@pytest.mark.parametrize("form", ["csv", "table", "json"])
@pytest.mark.parametrize("command", ["report", "sacct"])
def test_each_form(monkeypatch: pytest.MonkeyPatch, command: str, form: str) -> None:
    answer = report() if command == "report" else Accounts(START, END, [JOB])
    done, _ = run(monkeypatch, answer, command, "-o", form)
    assert done.exit_code == 0
    assert "research" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "someday"], "--from: 'someday' is no time: give now"),
        (["--to", "25h30"], "--to: '25h30' is no time"),
        (["--from", "now", "--to", "-7d"], "--from now is not before --to -7d"),
        (["--by", "moon"], "'moon' is not one of"),
    ],
)
def test_wrong_options(monkeypatch: pytest.MonkeyPatch, words: list[str], said: str) -> None:
    done, asked = run(monkeypatch, report(), "report", *words)
    assert (done.exit_code, asked) == (2, [])
    assert said in done.output


FORBIDDEN = {
    "kind": "Status",
    "message": 'forbidden: User "x" cannot get path "/unisono/v1/history/report"',
    "code": 403,
}
OURS = {"kind": "Status", "message": "no history has been written yet: it begins when ...", "code": 404}


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (404, b"404 page not found\n", "there is no dashboard to ask"),
        (404, b"404 page not found\n", "'unisono up' keeps one"),
        (403, json.dumps(FORBIDDEN).encode(), "You may not ask the dashboard through the API server"),
        (404, json.dumps(OURS).encode(), "no history has been written yet"),
    ],
)
def test_servers_without_a_history(monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, said: str) -> None:
    done, _ = run(monkeypatch, (status, body), "report")
    assert isinstance(done.exception, UnisonoError)
    assert said in str(done.exception)


def test_help_costs_no_imports(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = "import sys; import unisono.cli.commands.report, unisono.cli.commands.sacct; print('msgspec' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "False"


def test_sacct_shows_the_columns_and_states_that_are_asked_for() -> None:
    other = msgspec.structs.replace(JOB, name="other", state="Running", ended=0.0)
    found = Accounts(START, END, [JOB, other])
    lines = sacct_lines(found, sacct_columns("JobID%20,State,Elapsed"), sacct_states("f"))
    assert [line.split() for line in lines] == [["JOBID", "STATE", "ELAPSED"], ["train", "FAILED", "1:01:05"]]
    assert len(sacct_lines(found, states=sacct_states("RUNNING,CD"))) == 2
    assert sacct_columns("") == list(SACCT_COLUMNS)
    with pytest.raises(ValueError, match="no column colour: there are jobid"):
        sacct_columns("JobID,Colour")
    with pytest.raises(ValueError, match="no state X: there are CANCELLED"):
        sacct_states("X")


def test_columns_come_as_they_were_asked_for() -> None:
    found = Accounts(START, END, [JOB])
    shown = sacct_columns("JobID,JobName%30,User,NCPUS,Account,JobID")
    lines = sacct_lines(found, shown, parsable=True)
    assert lines == ["JOBID|JOBNAME|USER|NCPUS|ACCOUNT|JOBID", "train|train|ann|4.5|research|train"]
    assert sacct_lines(found, shown, parsable=True, title=False) == lines[1:]
    assert sacct_lines(found, shown)[0].split() == lines[0].split("|")
    assert sacct_lines(found, shown, sacct_states("CD"), title=False) == []


@pytest.mark.parametrize(("memory", "told"), [(0, ""), (1, "1K"), (3 << 30, "3145728K")])
def test_the_most_memory_of_a_pod_is_told_as_slurm_tells_it(memory: int, told: str) -> None:
    found = Accounts(START, END, [msgspec.structs.replace(JOB, memory=memory)])
    assert sacct_lines(found, sacct_columns("JobID,MaxRSS"), parsable=True) == ["JOBID|MAXRSS", f"train|{told}"]
    assert sacct_csv(found).splitlines()[1].endswith(f",{memory}")


@pytest.mark.parametrize(
    ("column", "reason"), [("AveRSS", "ask for maxrss"), ("NodeList", "nodes of jobs"), ("QOS", "queues stand for it")]
)
def test_a_column_of_slurm_that_is_not_told_is_refused_with_the_reason(column: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"{column.lower()}: .*{reason}"):
        sacct_columns(f"JobID,{column}")


def test_scripts_read_cells_between_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Accounts(START, END, [JOB])
    done, _ = run(monkeypatch, found, "sacct", "-P", "--noheader", "--format", "JobName,ExitCode")
    assert done.output == "train|3:0\n"
    done, _ = run(monkeypatch, found, "sacct", "-P", "-o", "csv")
    assert done.exit_code == 2
    assert "--parsable2" in done.output
