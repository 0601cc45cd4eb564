"""Argo's workflows, which Argo's own controller runs: each step is a pod, and how many there are shows as they go."""

from __future__ import annotations

from typing import Any, Final

from unisono.api.keys import POD_QUEUE
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.tables import FlagTable, StateTable, Table, family

_NAMES: Final[dict[str, Any]] = {"group": "argoproj.io", "version": "v1alpha1", "refers": True}


def _queues(at: str) -> dict[str, Any]:
    """Where the spec of a workflow, which stands at a path, describes pods: what all of them get, then each step's."""
    step = f"{at}.templates[*]"
    return {
        "templates": [step],
        "queues": [f"{each}.annotations[{POD_QUEUE}]" for each in (f"{step}.metadata", f"{at}.podMetadata")],
    }


ARGO: Final[tuple[JobKind, ...]] = family(
    Table(
        **_NAMES,
        **_queues("spec"),
        kind="Workflow",
        plural="workflows",
        suspend=FlagTable(path="spec.suspend"),
        ended=StateTable(
            path="status.phase",
            phases={"Completed": ["Succeeded"], "Failed": ["Failed", "Error"], "Running": ["Running"]},
            message="status.message",
        ),
        pods_label="workflows.argoproj.io/workflow",
    ),
    Table(
        **_NAMES,
        **_queues("spec.workflowSpec"),
        kind="CronWorkflow",
        plural="cronworkflows",
        suspend=FlagTable(path="spec.suspend"),
        makes=["workflows.argoproj.io"],
        own_pods=False,
    ),
    Table(**_NAMES, **_queues("spec"), kind="WorkflowTemplate", plural="workflowtemplates", own_pods=False),
)
