"""``flow.volcano.sh``: JobTemplate and JobFlow."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from unisono.api.base import Base, LongName, Natural, Object, ObjectName, ShortName, Time
from unisono.api.groups.batch import JobSpec, TaskState
from unisono.api.groups.topology import NetworkTopologySpec

RETAIN, DELETE = "retain", "delete"
FLOW_PHASES = ("Succeed", "Terminating", "Failed", "Running", "Pending")

FlowName = Annotated[str, Meta(extra_json_schema={"minLength": 1}, extra={"required": True})]
Port = Annotated[int, Meta(extra_json_schema={"format": "int32", "minimum": 0, "maximum": 65535})]
RequiredPort = Annotated[
    int, Meta(extra_json_schema={"format": "int32", "minimum": 0, "maximum": 65535}, extra={"required": True})
]


class JobTemplateStatus(Base):
    """Names of the jobs that were made from the template."""

    job_depends_on_list: list[str] | None = None


class JobTemplate(Object):
    """A job to be made by job flows; its spec is that of a job."""

    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobTemplateStatus = msgspec.field(default_factory=JobTemplateStatus)


class HttpHeader(Base):
    """A header of a probe's request."""

    name: Annotated[str, Meta(extra={"required": True})] = ""
    value: Annotated[str, Meta(extra={"required": True})] = ""


class HttpGet(Base):
    """Holds when the pods of a task answer a GET with a status from 200 to 399."""

    task_name: LongName | None = None
    path: str | None = None
    port: Port | None = None
    http_header: HttpHeader | None = msgspec.field(default=None, name="httpHeader")


class TcpSocket(Base):
    """Holds when the pods of a task accept connections."""

    task_name: LongName | None = None
    port: RequiredPort = 0


class TaskStatus(Base):
    """Holds when the pods of a task are in a phase, or beyond it."""

    task_name: LongName | None = None
    phase: ShortName | None = None


class FlowProbe(Base):
    """What must hold of the targets, instead of their completion.

    Attributes:
        http_get_list: answers of HTTP servers.
        tcp_socket_list: open ports.
        task_status_list: phases of tasks.
    """

    http_get_list: list[HttpGet] | None = None
    tcp_socket_list: list[TcpSocket] | None = None
    task_status_list: list[TaskStatus] | None = None


class FlowDependsOn(Base):
    """What must have happened before a job of the flow is made.

    Attributes:
        targets: names of other flows of the JobFlow: all of them.
        probe: what must hold of their jobs; without it they must have completed.
    """

    targets: list[str] | None = None
    probe: FlowProbe | None = None


class TopologyPatch(NetworkTopologySpec):
    """Topology constraints over those of the template; what is absent stays."""

    mode: Annotated[str, Meta(extra_json_schema={"enum": ["hard", "soft"]})] | None = None


class JobSpecPatch(JobSpec):
    """Fields over those of the template. Unlike a job's they have no defaults: what is absent stays."""

    queue: ObjectName | None = None
    max_retry: Natural | None = None
    network_topology: TopologyPatch | None = None


class FlowPatch(Base):
    """Changes to the template for this flow.

    Attributes:
        job_spec: maps are merged; tasks, containers, variables and volumes are merged by name, other lists replaced.
    """

    job_spec: JobSpecPatch | None = None


class Flow(Base):
    """One job of a flow.

    Attributes:
        name: name of its JobTemplate.
        depends_on: what must have happened before.
        patch: changes to the template.
    """

    name: FlowName = ""
    depends_on: FlowDependsOn | None = None
    patch: FlowPatch | None = None


class JobFlowSpec(Base):
    """Jobs that depend on each other.

    Attributes:
        flows: the jobs.
        job_retain_policy: what becomes of the jobs when all have completed: retain or delete.
    """

    flows: list[Flow] | None = None
    job_retain_policy: Annotated[str, Meta(extra_json_schema={"enum": [RETAIN, DELETE]})] | None = None


class RunningHistory(Base):
    """A phase that a job went through, from when to when."""

    start_timestamp: Time | None = None
    end_timestamp: Time | None = None
    state: str | None = None


class FlowJobStatus(Base):
    """One job of the flow, and what it went through."""

    name: str | None = None
    state: str | None = None
    start_timestamp: Time | None = None
    end_timestamp: Time | None = None
    restart_count: Natural | None = None
    running_histories: list[RunningHistory] | None = None


class FlowCondition(Base):
    """The state of one job."""

    phase: str | None = None
    create_time: Time | None = None
    running_duration: str | None = None
    task_status_count: dict[str, TaskState] | None = None


class FlowState(Base):
    """Phase of the whole flow."""

    phase: Annotated[str, Meta(extra_json_schema={"enum": list(FLOW_PHASES)})] | None = None


class JobFlowStatus(Base):
    """State of a flow.

    Attributes:
        pending_jobs: names of jobs by phase, as are the lists that follow.
        un_know_jobs: jobs that are suspended, restarting or being stopped; the wire name is Volcano's.
        job_status_list: each job with its history; jobs that are gone keep their entry.
        conditions: job name to its present state.
        state: phase of the whole.
    """

    pending_jobs: list[str] | None = None
    running_jobs: list[str] | None = None
    failed_jobs: list[str] | None = None
    completed_jobs: list[str] | None = None
    terminated_jobs: list[str] | None = None
    un_know_jobs: list[str] | None = None
    job_status_list: list[FlowJobStatus] | None = None
    conditions: dict[str, FlowCondition] | None = None
    state: FlowState = msgspec.field(default_factory=FlowState)


class JobFlow(Object):
    """Jobs that start one after the other, as their dependencies allow."""

    spec: JobFlowSpec = msgspec.field(default_factory=JobFlowSpec)
    status: JobFlowStatus = msgspec.field(default_factory=JobFlowStatus)
