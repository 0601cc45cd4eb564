"""The seal on a new Job: the review that completes it checks it as well, and writes down what it had before it (pure).

The API server compares the seal with the Job that it is about to store, in CEL, and asks once more only where they
differ, because another webhook has changed the Job since. The seal holds what could take from others: queues, user and
size. A user cannot forge it, for that review writes it on every new Job.
"""

from __future__ import annotations

from typing import Any

from unisono.api import kinds
from unisono.api.annotations import CHECKED, USER
from unisono.api.groups.batch import Job
from unisono.api.keys import POD_QUEUE
from unisono.api.kind import Kind

# Only the whole is compared, so parts that hold it themselves do no harm.
_BETWEEN = " | "


def seals(kind: Kind[Any], operation: str) -> bool:
    """Whether a review that completes an object of the kind seals it."""
    return kind.resource == kinds.JOBS.resource and operation == "CREATE"


def seal(job: Job) -> None:
    """Write the seal on a job that has its defaults."""
    job.metadata.annotations = {**(job.metadata.annotations or {}), CHECKED: seal_of(job)}


def seal_of(job: Job) -> str:
    """What the seal of the job says."""
    notes = job.metadata.annotations or {}
    sizes = ",".join(str(task.replicas or 0) for task in job.spec.tasks or ())
    return _BETWEEN.join((job.spec.queue or "", notes.get(POD_QUEUE, ""), notes.get(USER, ""), sizes))


def sealed(obj: str) -> str:
    """CEL: the object of that name is a Job with its seal, and as it was then."""
    notes, spec = f"{obj}.metadata.annotations", f"{obj}.spec"
    queue = f"(has({spec}.queue) ? {spec}.queue : '')"
    noted = (f"('{key}' in {notes} ? {notes}['{key}'] : '')" for key in (POD_QUEUE, USER))
    replicas = f"{spec}.tasks.map(task, has(task.replicas) ? string(task.replicas) : '0').join(',')"
    now = f" + '{_BETWEEN}' + ".join((queue, *noted, f"(has({spec}.tasks) ? {replicas} : '')"))
    return f"has({notes}) && '{CHECKED}' in {notes} && {notes}['{CHECKED}'] == {now}"
