"""Commands of Slurm: lines of ``sinfo``, times of ``--begin``, numbers of jobs, and what stands for other ones."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from unisono.api.annotations import LICENSES
from unisono.api.base import ObjectMeta
from unisono.api.groups.quota import FloatingResource, FloatingResourceSpec, FloatingResourceStatus
from unisono.cli.commands.sbatch import script_elements
from unisono.cli.commands.scontrol import license_fields
from unisono.cli.main import cli
from unisono.cli.slurm.batches import JOB_ID
from unisono.cli.slurm.script import BadScript
from unisono.cli.slurm.selecting import SUMMARY, chosen_nodes, node_states, of_names, sinfo_formatted, without_numbers
from unisono.cli.slurm.starting import begin_at
from unisono.errors import NotFound
from unisono.sdk.jobs.submission import job_of as job_of_program
from unisono.sdk.overview.queues import NodeLine

NODES = [
    NodeLine("n1", "mix", "4/16", "8Gi/64Gi", "nvidia.com/gpu 2/8"),
    NodeLine("n2", "mix", "4/16", "8Gi/64Gi", "nvidia.com/gpu 2/8"),
    NodeLine("n3", "idle", "0/8", "0/32Gi"),
    NodeLine("n4", "down", "0/8", "0/32Gi"),
]


@pytest.mark.parametrize(
    ("pattern", "each", "lines"),
    [
        (SUMMARY, False, ["PARTITION AVAIL TIMELIMIT NODES(A/I/O/T) NODELIST", "all up infinite 2/1/1/4 n1,n2,n3,n4"]),
        ("%10t|%D|%N", False, ["STATE|NODES|NODELIST", "mix|2|n1,n2", "idle|1|n3", "down|1|n4"]),
        ("%t %D", True, ["STATE NODES", "mix 1", "mix 1", "idle 1", "down 1"]),
        ("%n %c %m %G", False, None),
        ("%C", False, ["CPUS(A/I/O/T)", "8/32/8/48"]),
    ],
)
def test_sinfo_in_slurms_format(pattern: str, each: bool, lines: list[str] | None) -> None:
    found = sinfo_formatted(NODES, pattern, each=each)
    if lines is None:
        assert found[1:] == [
            "n1 16 64Gi nvidia.com/gpu 2/8",
            "n2 16 64Gi nvidia.com/gpu 2/8",
            "n3 8 32Gi (null)",
            "n4 8 32Gi (null)",
        ]
    else:
        assert found == lines
        assert sinfo_formatted(NODES, pattern, each=each, title=False) == lines[1:]
    with pytest.raises(click.UsageError, match="%q is not known"):
        sinfo_formatted([], "%q")


@pytest.mark.parametrize(
    ("text", "states"),
    [("", set()), ("all", set()), ("IDLE,mixed", {"idle", "mix"}), ("drained,alloc", {"drain", "alloc"})],
)
def test_states_of_nodes(text: str, states: set[str]) -> None:
    assert node_states(text) == states
    with pytest.raises(click.UsageError, match="nodes are idle"):
        node_states("odd")


@pytest.mark.parametrize(
    ("states", "names", "responding", "shown"),
    [
        ("", "", False, ["n1", "n2", "n3", "n4"]),
        ("", "", True, ["n1", "n2", "n3"]),
        ("down", "", True, []),
        ("mix", "n[2-4]", False, ["n2"]),
        ("", "n[3-1]", False, []),
    ],
)
def test_nodes_that_sinfo_shows(states: str, names: str, responding: bool, shown: list[str]) -> None:
    assert [node.name for node in chosen_nodes(NODES, node_states(states), names, responding=responding)] == shown


def test_a_partition_that_is_not_there_is_named() -> None:
    assert of_names(NODES, ("n2",), "node") == [NODES[1]]
    assert of_names(NODES, (), "node") == NODES
    with pytest.raises(NotFound, match="there is no node odd"):
        of_names(NODES, ("n1", "odd"), "node")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("scontrol ping", "'unisono status'"),
        ("scontrol odd", "there are hold"),
        ("scontrol create reservation Odd=1", "write NAME=VALUE"),
        ("scontrol delete reservation=a Odd=1", "write NAME=VALUE"),
        ("scontrol show steps", "lists what a job runs"),
        ("scontrol show odd", "there are job"),
        ("sinfo -o odd", "a line such as"),
        ("sinfo -t odd", "nodes are idle"),
    ],
)
def test_what_is_not_here_is_refused_with_what_stands_for_it(words: str, said: str) -> None:
    done = CliRunner().invoke(cli, words.split())
    assert done.exit_code == 2
    assert said in done.output


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("now", 0),
        ("now+90", 90),
        ("now+2minutes", 120),
        ("now+1hour", 3600),
        ("now+2days", 172800),
        ("today", 0),
        ("tomorrow", 12 * 3600),
        ("13:30", 5400),
        ("11:59:00", 24 * 3600 - 60),
        ("midnight", 12 * 3600),
        ("2026-03-03T12:00", 24 * 3600),
        ("2026-03-03", 12 * 3600),
        ("12:00:30", 30),
    ],
)
def test_begin_is_read_as_slurm_reads_it(text: str, seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        now = datetime.fromisoformat("2026-03-02T12:00:00+05:30").timestamp()
        assert begin_at(text, now) - now == seconds
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["odd", "25:00", "now+1fortnight", "12:61", "12:00:99", ""])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(BadScript, match="give now"):
        begin_at(text, 0.0)


async def test_a_number_stands_for_the_job_that_has_it() -> None:
    asked = []

    class Client:
        async def list(self, kind: Any, namespace: str, *, label_selector: str) -> Any:
            asked.append(label_selector)
            labels = {JOB_ID: "12"}
            jobs = [SimpleNamespace(metadata=SimpleNamespace(name=name, labels=labels)) for name in ("a-0", "a-1")]
            return SimpleNamespace(items=jobs)

    client: Any = Client()
    assert await without_numbers(client, "default", ["12", "13", "b"]) == {"a-0", "a-1", "13", "b"}
    assert asked == [f"{JOB_ID} in (12,13)"]
    assert await without_numbers(client, "default", ["b"]) == {"b"}
    assert len(asked) == 1


def test_licences_are_those_of_the_whole_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fit.sh").write_text("#!/bin/bash\n#SBATCH -N 2 --licenses=matlab:2 --container-image=x\n")
    batch, [element] = script_elements(["fit.sh"], None, local=False)
    assert batch.notes == ()
    job = job_of_program(element.program, local=False).manifest()
    assert job["metadata"]["annotations"] == {LICENSES: "matlab=2"}


def test_what_there_is_of_licences_as_slurm_tells_it() -> None:
    status = FloatingResourceStatus(in_use=5)
    floating = FloatingResource(metadata=ObjectMeta(name="matlab"), spec=FloatingResourceSpec(10, 2), status=status)
    told = {"LicenseName": "matlab", "Total": 10, "Used": 7, "Free": 3, "Reserved": 0, "Remote": "no"}
    assert license_fields(floating) == told


def test_variables_of_sbatch_stand_between_the_script_and_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "fit.sh"
    script.write_text("#!/bin/bash\n#SBATCH -p lines -J lines -t 10 --mem=1G\nsrun true\n")
    given = {"PARTITION": "given", "JOB_NAME": "given", "TIMELIMIT": "", "REQUEUE": "1", "MEM_PER_NODE": "2G"}
    for name, value in {**given, "NTASKS": "9"}.items():
        monkeypatch.setenv(f"SBATCH_{name}", value)
    batch, _ = script_elements(["-J", "words", str(script)], None)
    assert (batch.queue, batch.name, batch.seconds, batch.memory_mib) == ("given", "words", 600, 2048)
    assert (batch.requeue, batch.tasks) == (True, 1)
