"""Labels by which tools find the pods of a training job."""

from __future__ import annotations

from typing import Final

OPERATOR_NAME: Final = "training.kubeflow.org/operator-name"
REPLICA_INDEX: Final = "training.kubeflow.org/replica-index"
JOB_ROLE: Final = "training.kubeflow.org/job-role"

RESTARTS: Final = "unisono.io/restarts"
"""Annotation of a job: how often failed pods were replaced since the job was last resumed."""

RESTARTED_PODS: Final = "unisono.io/restarted-pods"
"""Annotation of a job: UIDs of the failed pods that were counted last."""

POD_RESTARTS: Final = "unisono.io/pod-restarts"
"""Annotation of a job: how often in a row pods were replaced, such as ``worker-0=2,worker-3=1``."""
