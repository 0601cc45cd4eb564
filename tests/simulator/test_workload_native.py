"""The native form of workloads, and what is wrong with a bad one."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from simulator.worlds import job
from unisono.simulator.workload import formats
from unisono.simulator.workload.formats import load, recognise
from unisono.simulator.workload.job import NodeShape, Role, WorkloadError, gpu_roles

HEADER = '{"unisono":"workload","version":1}\n'


def test_jobs_come_back_as_they_were_written(tmp_path: Path) -> None:
    jobs = [
        job("a", submit=3, gpus=8, pods=4, user="ada", queue="q", estimate=500.0, checkpoint=60.0),
        job("b", submit=1, seconds=None, roles=(Role(gpus=1, gpu_milli=250, gpu_models=("T4", "A10")),), gang=1),
    ]
    text = io.StringIO()
    formats.write(jobs, text)
    file = tmp_path / "w.jsonl.gz"
    file.write_bytes(gzip.compress(text.getvalue().encode()))
    assert recognise(file) == "native"
    assert load(file) == [jobs[1], jobs[0]]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"name":"a","submit":0,"runSeconds":1,"roles":[]}', "w.jsonl:2: roles: give at least one"),
        ('{"name":"a","submit":-1,"runSeconds":1,"roles":[{}]}', "w.jsonl:2: submit: -1.0 is not between"),
        ('{"name":"a","submit":0,"runSeconds":1,"roles":[{"gpuz":1}]}', "gpuz"),
        ('{"name":"a","submit":0,"runSeconds":1,"roles":[{"gpus":2,"gpuMilli":500}]}', "roles[0].gpuMilli"),
        ('{"name":"a","submit":0,"runSeconds":1,"roles":[{}],"gang":2}', "gang: 2 is not between 1 and"),
        (
            '{"name":"a","submit":0,"runSeconds":1,"roles":[{}],"after":"b"}',
            "w.jsonl: job a: after: no job b is submitted before it",
        ),
        (
            '{"name":"a","submit":0,"runSeconds":1,"roles":[{}],"thinkSeconds":3}',
            "w.jsonl:2: thinkSeconds: name the job",
        ),
        ('{"name":"a","submit":0}', "w.jsonl:2: Object missing required field"),
        ("nonsense", "w.jsonl:2:"),
    ],
)
def test_a_bad_line_is_named_with_its_field(tmp_path: Path, line: str, told: str) -> None:
    file = tmp_path / "w.jsonl"
    file.write_text(HEADER + line + "\n")
    with pytest.raises(WorkloadError) as caught:
        formats.read(file)
    assert told in str(caught.value)


def test_names_must_differ_and_versions_be_known(tmp_path: Path) -> None:
    line = '{"name":"a","submit":0,"runSeconds":1,"roles":[{}]}\n'
    file = tmp_path / "w.jsonl"
    file.write_text(HEADER + line + line)
    with pytest.raises(WorkloadError, match=r"w\.jsonl:3: name: a job a stands above already"):
        formats.read(file)
    file.write_text(HEADER.replace("1", "9") + line)
    with pytest.raises(WorkloadError, match=r"version 9 is not known; this program reads 1"):
        formats.read(file)
    file.write_text("")
    with pytest.raises(WorkloadError, match="the file is empty"):
        formats.read(file)
    file.write_text('{"a":' * 100_000)
    with pytest.raises(WorkloadError, match=r"w\.jsonl:1: "):
        formats.read(file)


def test_jobs_of_many_gpus_are_cut_into_pods_of_a_node() -> None:
    shape = NodeShape(gpus=8)
    assert [(role.count, role.gpus) for role in gpu_roles(20, shape)] == [(2, 8), (1, 4)]
    assert [(role.count, role.gpus) for role in gpu_roles(16, shape)] == [(2, 8)]
    assert [(role.count, role.gpus) for role in gpu_roles(3, shape)] == [(1, 3)]
    assert gpu_roles(0, shape)[0].cpu_milli == 1000
