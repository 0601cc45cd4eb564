"""Labels and annotations of a JobSet's pods."""

from __future__ import annotations

from typing import Final

JOBSET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
REPLICATED_JOB_REPLICAS: Final = "jobset.sigs.k8s.io/replicatedjob-replicas"
GLOBAL_REPLICAS: Final = "jobset.sigs.k8s.io/global-replicas"
JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
JOB_GLOBAL_INDEX: Final = "jobset.sigs.k8s.io/job-global-index"
GROUP_NAME: Final = "jobset.sigs.k8s.io/group-name"
GROUP_REPLICAS: Final = "jobset.sigs.k8s.io/group-replicas"
JOB_GROUP_INDEX: Final = "jobset.sigs.k8s.io/job-group-index"
RESTART_ATTEMPT: Final = "jobset.sigs.k8s.io/restart-attempt"
COORDINATOR: Final = "jobset.sigs.k8s.io/coordinator"


ATTEMPT: Final = "unisono.io/attempt"
"""Annotation of a pod: restarts of the JobSet and of its Job when it was made, as ``2.1``."""
