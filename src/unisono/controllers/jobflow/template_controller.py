"""The job template controller: each template's status lists the jobs that were made from it."""

from __future__ import annotations

from unisono.api.groups.flow import JobTemplate, JobTemplateStatus
from unisono.api.kind_families import JOB_TEMPLATES
from unisono.api.kinds import JOBS
from unisono.controllers.indexing import index
from unisono.controllers.jobflow.keys import template_keys
from unisono.controllers.statuses import LastWritten, write_status
from unisono.errors import NotFound
from unisono.kube.controller import Context, Controller

JOB_INDEX = "made-from-template"


class JobTemplateController(Controller):
    """Keeps ``status.jobDependsOnList`` of ``flow.volcano.sh`` JobTemplates."""

    name = "jobtemplate-controller"
    workers = 1

    def __init__(self) -> None:
        self._written: LastWritten[JobTemplate] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch templates and the jobs made from them."""
        self._client = context.client
        self._templates = context.watch(JOB_TEMPLATES, optional=True)
        self._jobs = context.watch(JOBS, template_keys)
        index(self._jobs, JOB_INDEX, template_keys)

    async def reconcile(self, key: str) -> float | None:
        """Write the names of the jobs, if they have changed."""
        template = self._written.newest(key, self._templates.get(key))
        if template is None:
            return None
        names = sorted(job.metadata.name for job in self._jobs.by_index(JOB_INDEX, key))
        try:
            status = JobTemplateStatus(job_depends_on_list=names or None)
            self._written.keep(await write_status(self._client, JOB_TEMPLATES, template, status))
        except NotFound:
            return None
        return None
