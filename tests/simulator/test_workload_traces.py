"""Readers of public traces, on small samples of the same form."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unisono.simulator.files import InputError
from unisono.simulator.workload.formats import FORMATS, load, recognise
from unisono.simulator.workload.job import Job, NodeShape, WorkloadError

SAMPLES = {
    "swf": (
        "log.swf",
        "; Version: 2.2\n;\n"
        "  1  0  5  100  4  -1  -1  6  300  2048  1  7  1  -1  1  -1  -1  -1\n"
        "  2  9 -1   -1  4  -1  -1 -1   -1    -1  0  7  1  -1  1  -1  -1  -1\n"
        "  3  9  0   50  2  -1  -1 -1   -1    -1  1 -1  1  -1  1  -1  -1  -1\n",
    ),
    "openb": (
        "pods.csv",
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "p-1,4000,1024,1,460,T4|A10,LS,Running,30,130,40\np-0,8000,2048,0,0,,BE,Pending,10,20,\n",
    ),
    "muri": (
        "m.csv",
        "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time\n"
        "0,16,5000,1000,bert,8,1,1,200\n1,1,0,10,dqn,8,1,1,100\n",
    ),
    "tiresias": (
        "t.csv",
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n3,2,40,100,vgg16,600,5\n",
    ),
    "philly": (
        "p.csv",
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n2017-10-09 07:01:50,10.5,12,126,6214e9\n",
    ),
    "chronus": (
        "c.csv",
        "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,"
        "best_effort,job_type\n"
        "0,vc_a,1,2,9,bert,96,5,159-189,10-8,0,soft\n1,vc_b,0,1,9,vgg,6,5,10,1,1,best\n",
    ),
    "helios": (
        "h.csv",
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "77,u1,vcA,8,32,1,COMPLETED,2020-04-01 00:00:10,,,100,5\n78,u1,vcB,0,4,1,FAILED,2020-04-01 00:00:00,,,7,0\n"
        "79,u2,vcB,1,4,1,CANCELLED,2020-04-01 00:00:00,,,0,0\n",
    ),
    "shockwave": (
        "s.trace",
        "LM (batch size 10)\tpython3 x\tlm\t--steps\t1\t134583\t4\tgns\t1\t-1.000000\t1418\t0\n"
        "ResNet-18 (batch size 32)\tpython3 y\tr\t--steps\t1\t1\t1\tstatic\t1\t99\t3338\t55\n",
    ),
}


def read(tmp_path: Path, form: str, text: str | None = None) -> list[Job]:
    name, sample = SAMPLES[form]
    file = tmp_path / name
    file.write_text(sample if text is None else text)
    return load(file, form, NodeShape(gpus=8, cpus=4))


@pytest.mark.parametrize("form", SAMPLES)
def test_the_form_is_seen_from_name_and_first_line(tmp_path: Path, form: str) -> None:
    file = tmp_path / SAMPLES[form][0]
    file.write_text(SAMPLES[form][1])
    assert recognise(file) == form
    assert set(SAMPLES) | {"native"} == set(FORMATS)


def test_swf(tmp_path: Path) -> None:
    first, second = read(tmp_path, "swf")
    assert (first.name, first.submit, first.run_seconds, first.estimate, first.user) == ("job-1", 0, 100, 300, "user-7")
    assert [(role.count, role.cpu_milli, role.memory_mib) for role in first.roles] == [(1, 4000, 8), (1, 2000, 4)]
    assert (second.roles[0].cpu_milli, second.estimate, second.user) == (2000, None, "")


def test_openb(tmp_path: Path) -> None:
    cpu, shared = read(tmp_path, "openb")
    assert (cpu.name, cpu.submit, cpu.run_seconds, cpu.gpu_demand, cpu.job_class) == ("p-0", 10, 10, 0, "BE")
    assert (shared.run_seconds, shared.roles[0].gpu_milli, shared.roles[0].gpu_models) == (90, 460, ("T4", "A10"))


def test_openb_lists_without_times(tmp_path: Path) -> None:
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nb,1,1,8,1000\na,1,1,1,1000\n"
    jobs = read(tmp_path, "openb", text)
    assert [(job.name, job.submit, job.run_seconds) for job in jobs] == [("a", 0, None), ("b", 0, None)]


def test_muri_and_tiresias(tmp_path: Path) -> None:
    short, long = read(tmp_path, "muri")
    assert (short.name, short.submit, short.run_seconds) == ("dqn-1", 0, pytest.approx(1.015))
    assert (long.submit, long.run_seconds) == (5, pytest.approx(203))
    assert [(role.count, role.gpus) for role in long.roles] == [(2, 8)]
    (job,) = read(tmp_path, "tiresias")
    assert (job.name, job.submit, job.run_seconds, job.gpu_demand) == ("vgg16-3", 40, 600, 2000)


def test_philly(tmp_path: Path) -> None:
    first, second = read(tmp_path, "philly")
    assert (first.submit, first.run_seconds, first.queue) == (0, 10.5, "6214e9")
    assert [(role.count, role.gpus, role.name) for role in first.roles] == [(1, 8, "worker"), (1, 4, "rest")]
    assert second.submit == 5


def test_chronus(tmp_path: Path) -> None:
    best, soft = read(tmp_path, "chronus")
    assert (best.submit, best.deadline, best.priority, best.preemptable) == (60, None, 0, True)
    assert best.roles[0].cpu_milli == 1000
    assert (soft.run_seconds, soft.deadline, soft.priority, soft.job_class) == (5760, 159 * 60, 100, "soft")


def test_helios(tmp_path: Path) -> None:
    cpu, gpu = read(tmp_path, "helios")
    assert (cpu.name, cpu.submit, cpu.queue, cpu.cpu_demand) == ("job-78", 0, "vcB", 4000)
    assert (gpu.submit, gpu.gpu_demand, gpu.user) == (10, 8000, "u1")


def test_shockwave(tmp_path: Path) -> None:
    first, second = read(tmp_path, "shockwave")
    assert (first.name, first.run_seconds, first.gpu_demand) == ("lm-batch-size-10-0", 1418, 4000)
    assert (first.deadline, second.deadline) == (None, 99)


@pytest.mark.parametrize(
    ("form", "old", "new", "told"),
    [
        ("swf", "  1  0  5  100", "  1  0  5  long", "log.swf:3: run time: 'long' is not a number"),
        ("swf", "  1  0  5  100", "  1  0  5", "log.swf:3: the line has 17 fields, not 18"),
        ("openb", ",460,", ",1460,", "pods.csv:2: gpu_milli: 1460 of 1 GPUs"),
        ("openb", "num_gpu", "gpus", "pods.csv:1: no column num_gpu"),
        ("muri", "1000,bert", "many,bert", "m.csv:2: iterations: 'many' is not a number"),
        ("philly", "07:01:50", "7h", "p.csv:3: timestamp: '2017-10-09 7h' is not a time"),
        ("chronus", ",soft", ",other", "c.csv:2: job_type: 'other'"),
        ("chronus", "159-189", "soon", "c.csv:2: expect_time_list: 'soon'"),
        ("helios", ",8,32,", ",8.5,32,", "h.csv:2: gpu_num: '8.5' is not a whole number"),
        ("shockwave", "\t1418\t", "\tnever\t", "s.trace:1: duration: 'never'"),
        ("shockwave", "\t1418\t", "\t", "s.trace:1: the line has 11 fields"),
    ],
)
def test_a_bad_cell_is_named_with_file_line_and_column(
    tmp_path: Path, form: str, old: str, new: str, told: str
) -> None:
    assert old in SAMPLES[form][1]
    with pytest.raises(InputError) as caught:
        read(tmp_path, form, SAMPLES[form][1].replace(old, new, 1))
    assert told in str(caught.value)


def test_an_empty_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="there are no jobs in the file"):
        read(tmp_path, "swf", "; nothing\n")


TRACES = os.environ.get("UNISONO_TEST_TRACES")


@pytest.mark.skipif(not TRACES, reason="UNISONO_TEST_TRACES names no folder with public traces")
@pytest.mark.parametrize(
    ("pattern", "form", "jobs"),
    [
        ("openb*/openb_pod_list_default.csv.gz", "openb", 8152),
        ("muri*/trace1.csv.gz", "muri", 1494),
        ("philly*/philly.csv.gz", "philly", 82247),
        ("chronus*/*MIX1.csv.gz", "chronus", 30940),
        ("swf-nasa*/*.swf.gz", "swf", 18066),
        ("swf-hpc2n*/*.swf.gz", "swf", 3145),
        ("shockwave*/120*.trace.gz", "shockwave", 120),
    ],
)
def test_real_traces_have_as_many_jobs_as_published(pattern: str, form: str, jobs: int) -> None:
    (file,) = Path(TRACES or "").glob(pattern)
    assert recognise(file) == form
    assert len(load(file)) == jobs
