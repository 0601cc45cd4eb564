"""openb pod lists (Alibaba 2023): pods that share GPUs, with times in seconds.

Some lists have only the first five columns: their pods come at 0 and stay. ``gpu_milli`` is of each GPU, ``gpu_spec``
lists the models that a pod can use, joined by ``|``.
"""

from __future__ import annotations

from pathlib import Path

from unisono.simulator.files import Row, rows
from unisono.simulator.workload.job import WHOLE_GPU, Job, Role, WorkloadError

COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


def read(path: Path, _: object = None) -> list[Job]:
    """Pods of a list as jobs of one pod, in order of their creation and then of their names.

    Raises:
        InputError: names line and column.

    """
    return sorted((_job(row) for row in rows(path, COLUMNS)), key=lambda job: (job.submit, job.name))


def _job(row: Row) -> Job:
    gpus = row.whole("num_gpu")
    milli = row.whole("gpu_milli", 0) if gpus else WHOLE_GPU
    if not 0 < milli <= WHOLE_GPU or (milli < WHOLE_GPU and gpus > 1):
        raise WorkloadError(f"{row.where}: gpu_milli: {milli} of {gpus} GPUs cannot be asked for")
    role = Role(
        cpu_milli=row.whole("cpu_milli"),
        memory_mib=row.whole("memory_mib"),
        gpus=gpus,
        gpu_milli=milli,
        gpu_models=tuple(model for model in row.text("gpu_spec", "").split("|") if model),
    )
    created = row.number("creation_time", 0.0)
    ended = row.number("deletion_time", -1.0, least=None)
    begun = row.number("scheduled_time", created)
    return Job(
        name=row.text("name"),
        submit=created,
        run_seconds=max(ended - begun, 0.0) if ended >= 0 else None,
        roles=(role,),
        job_class=row.text("qos", ""),
    )
