"""Everything that a scheduler plug-in needs, under names that stay.

Write plug-ins against this module only; see `docs/plugins.md`. Until version 1.0 a minor version may change a name or a
hook, and the changelog says so. From 1.0 on, names and hooks found here change in major versions only: what is to go is
deprecated for one minor version at least. Modules below `unisono.engine` and `unisono.cluster` may change at any time.

- `Plugin` is the base class; its docstring has the hooks and how answers combine.
- Answers: `Reason`, `Veto`, `RawScore`, `Normalise`, `Vote`, `Refusal`, `Cause`, `Preparation`.
- Questions: `Session`, `NodeView`, `JobState`, `QueueState`, `Task`, `TaskStatus`, `PodClass`, `Purpose`.
- Promises that a class makes: `Reach`, `Scope`.
- Changes that `relax` may answer: `AddAnnotation`, `AddLabels`, `AddToleration`, `RelaxRule`, `RequestAtMost`,
  `Uncordon`, `UseLabel`, `UseQueue`.
- Names of objects in texts: `reference`.
- Arguments in the configuration: `Argument`, `argument_value`, `PluginConfig`.
"""

from __future__ import annotations

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import (
    BoolArray,
    FloatArray,
    Key,
    Normalise,
    Purpose,
    RawScore,
    Reach,
    Reason,
    Refusal,
    Scope,
    Veto,
    Vote,
)
from unisono.engine.changes import (
    AddAnnotation,
    AddLabels,
    AddToleration,
    RelaxRule,
    RequestAtMost,
    Uncordon,
    UseLabel,
    UseQueue,
)
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.decisions import Preparation
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session
from unisono.engine.verdict import Cause, reference

__all__ = [
    "AddAnnotation", "AddLabels", "AddToleration", "Argument", "BoolArray", "Cause", "FloatArray", "JobState", "Key",
    "NodeView", "Normalise", "Plugin", "PluginConfig", "PodClass", "Preparation", "Purpose", "QueueState", "RawScore",
    "Reach", "Reason", "Refusal", "RelaxRule", "RequestAtMost", "Scope", "Session", "Task", "TaskStatus", "Uncordon",
    "UseLabel", "UseQueue", "Veto", "Vote", "argument_value", "reference",
]  # fmt: skip
