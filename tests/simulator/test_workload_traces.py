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
    "pai": (
        "pai_task_table.csv",
        "4b3f,ps,1.0,Terminated,100.0,400.0,600.0,29.296875,,\n4b3f,worker,2.0,Terminated,110.0,400.0,400.0,8.0,50.0,T4\n"
        "77aa,tensorflow,3.0,Running,250.0,,1200.0,64.0,200.0,V100\n90bc,worker,1.0,Waiting,,,100.0,1.0,100.0,\n",
    ),
    "dlrm": (
        "disaggregated.csv",
        "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,memory_request,"
        "memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,deletion_time\n"
        "instance_2,HN,app_0,12,12,1,1,25,25,120.0,120.0,680.0,800.0,8,,,\n"
        "instance_1,CN,app_3,64,64,0,0,1,1,320.0,320.0,255.0,300.0,-1,50.0,60.0,160.0\n",
    ),
    "spot": (
        "job_info_df.csv",
        "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
        "239255,13,A10,20,1,1,30,2764799,HP\n437260,57,A100-SXM4-80GB,15,0.5,16,9,41060,Spot\n",
    ),
    "philly-log": (
        "cluster_job_log",
        '[{"status": "Pass", "vc": "ee9e8c", "jobid": "application_1", "attempts": ['
        '{"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:09", '
        '"detail": [{"ip": "m47", "gpus": ["gpu0", "gpu1"]}]}, {"start_time": "2017-10-07 01:13:30", '
        '"end_time": "2017-10-07 01:14:00", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]}], '
        '"submitted_time": "2017-10-07 01:11:39", "user": "ce2f4c"},\n'
        '{"status": "Killed", "vc": "11cb48", "jobid": "application_2", "attempts": ['
        '{"start_time": "2017-10-07 01:12:00", "end_time": "None", "detail": [{"ip": "m2", "gpus": ["gpu0"]}]}], '
        '"submitted_time": "2017-10-07 01:11:30", "user": "u2"},\n'
        '{"status": "Failed", "vc": "11cb48", "jobid": "application_3", "attempts": [], '
        '"submitted_time": "2017-10-07 01:11:00", "user": "u2"}]\n',
    ),
    "borg": (
        "instance_events.json",
        '{"time":"1000000","type":"SUBMIT","collection_id":"5","collection_type":"0","priority":"200",'
        '"instance_index":"0","resource_request":{"cpus":0.5,"memory":0.25}}\n'
        '{"time":"1000000","type":"0","collection_id":"5","priority":"200","instance_index":"1",'
        '"resource_request":{"cpus":0.5,"memory":0.25}}\n'
        '{"time":"3000000","type":"3","collection_id":"5","priority":"200","instance_index":"0"}\n'
        '{"time":"4000000","type":"3","collection_id":"5","priority":"200","instance_index":"1"}\n'
        '{"time":"5000000","type":"4","collection_id":"5","priority":"200","instance_index":"0"}\n'
        '{"time":"6000000","type":"3","collection_id":"5","priority":"200","instance_index":"0"}\n'
        '{"time":"9000000","type":"6","collection_id":"5","priority":"200","instance_index":"0"}\n'
        '{"time":"7000000","type":"6","collection_id":"5","priority":"200","instance_index":"1"}\n'
        '{"time":"2000000","type":"0","collection_id":"6","priority":"25","instance_index":"0"}\n'
        '{"time":"8000000","type":"3","collection_id":"6","priority":"25","instance_index":"0"}\n'
        '{"time":"0","type":"0","collection_id":"7","collection_type":"1","priority":"25","instance_index":"0"}\n',
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
    assert (first.job_class, second.job_class) == ("queue-1", "queue-1")


@pytest.mark.parametrize(
    ("before", "think", "after"),
    [(1, 60, ("job-1", 60)), (1, -1, ("job-1", None)), (2, 60, ("", None)), (9, 60, ("", None)), (-1, 60, ("", None))],
)
def test_swf_jobs_that_follow_others(tmp_path: Path, before: int, think: int, after: tuple[str, float | None]) -> None:
    text = SAMPLES["swf"][1].replace("-1  1  -1  1  -1  -1  -1\n", f"-1  1  -1  1  -1  {before}  {think}\n")
    last = read(tmp_path, "swf", text)[-1]
    assert (last.after, last.think_seconds) == after


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


def test_acme_has_no_queues(tmp_path: Path) -> None:
    """Its column of that name is the time that a job waited."""
    text = (
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
        "dlc1,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,,,117,32,936.0\n"
    )
    (job,) = read(tmp_path, "helios", text)
    assert (job.queue, job.job_class, job.gpu_demand) == ("default", "Other", 8000)


def test_pai(tmp_path: Path) -> None:
    """Roles of a job, percent of CPUs and GPUs, and what still ran when the record ended."""
    first, running = read(tmp_path, "pai")
    assert (first.name, first.submit, first.run_seconds, first.user, first.censored) == ("job-4b3f", 0, 300, "", False)
    assert [(role.name, role.count, role.cpu_milli, role.gpus, role.gpu_milli) for role in first.roles] == [
        ("ps", 1, 6000, 0, 1000),
        ("worker-1", 2, 4000, 1, 500),
    ]
    assert (first.roles[0].memory_mib, running.roles[0].gpus) == (30_000, 2)
    assert (running.submit, running.run_seconds, running.censored) == (150, 150, True)


def test_pai_with_its_jobs_and_a_header(tmp_path: Path) -> None:
    (tmp_path / "pai_job_table.csv").write_text("4b3f,8cb3,585a,Terminated,40.0,410.0\n77aa,1,u2,Running,250.0,\n")
    header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
    first, running = read(tmp_path, "pai", header + SAMPLES["pai"][1])
    assert (first.user, first.submit, running.user, running.submit) == ("585a", 0, "u2", 210)


def test_dlrm(tmp_path: Path) -> None:
    always, short = read(tmp_path, "dlrm")
    assert (always.name, always.submit, always.run_seconds, always.user) == ("instance_2", 0, None, "app_0")
    assert (always.roles[0].cpu_milli, always.roles[0].gpus, always.roles[0].memory_mib) == (12_000, 1, 122_880)
    assert (short.submit, short.run_seconds, short.job_class, short.roles[0].gpus) == (50, 100, "CN", 0)


def test_spot(tmp_path: Path) -> None:
    spot, high = read(tmp_path, "spot")
    assert (spot.submit, spot.run_seconds, spot.queue, spot.preemptable, spot.priority) == (9, 41060, "org-57", True, 0)
    assert (spot.roles[0].count, spot.roles[0].gpus, spot.roles[0].gpu_milli) == (16, 1, 500)
    assert (high.preemptable, high.priority, high.roles[0].gpu_models) == (False, 100, ("A10",))


def test_philly_as_published(tmp_path: Path) -> None:
    """Attempts count together; one without an end runs until the last moment that is known."""
    running, tried = read(tmp_path, "philly-log")
    assert (running.name, running.submit, running.run_seconds, running.censored) == ("application_2", 0, 120, True)
    assert (tried.submit, tried.run_seconds, tried.gpu_demand, tried.queue) == (9, 90, 2000, "ee9e8c")


def test_borg(tmp_path: Path) -> None:
    """Amounts are parts of the largest node; pods run as long as instances did in the mean."""
    (tmp_path / "collection_events.json").write_text('{"collection_id":"5","user":"abc"}\n')
    job, open_job = read(tmp_path, "borg")
    assert (job.name, job.submit, job.user, job.priority, job.preemptable) == ("job-5", 0, "abc", 200, False)
    assert [(role.count, role.cpu_milli, role.memory_mib) for role in job.roles] == [(2, 2000, 4096)]
    assert (job.run_seconds, job.gang, job.censored) == (4, 1, False)
    assert (open_job.submit, open_job.run_seconds, open_job.preemptable, open_job.censored) == (1, 1, True, True)


def test_borg_as_a_table(tmp_path: Path) -> None:
    text = (
        "time,type,collection_id,instance_index,priority,resource_request.cpus,resource_request.memory\n"
        "0,0,1,0,103,0.25,0.1\n1000000,3,1,0,103,,\n3000000,7,1,0,103,,\n"
    )
    (job,) = read(tmp_path, "borg", text)
    assert (job.run_seconds, job.roles[0].cpu_milli, job.job_class) == (2, 1000, "batch")


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
        ("pai", "600.0", "six", "pai_task_table.csv:1: plan_cpu: 'six' is not a number"),
        ("dlrm", ",12,12,1,", ",12,12,-1,", "disaggregated.csv:2: gpu_request: '-1' is not a number of at least 0"),
        ("spot", ",HP", ",MP", "job_info_df.csv:2: job_type: 'MP' is none of HP and Spot"),
        ("philly-log", "2017-10-07 01:12:00", "soon", "cluster_job_log: job application_2: 'soon' is not a time"),
        ("philly-log", '"jobid": "application_2", ', "", "cluster_job_log: it is no list of jobs with their attempts"),
        ("borg", '"4000000"', '"late"', "instance_events.json:4: time: 'late' is not a number"),
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
