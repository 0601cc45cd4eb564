"""Annotations of Unisono's own; Volcano's and Kubernetes' keys stand in ``api.keys``."""

from __future__ import annotations

from typing import Final

WORKING_DIRECTORY: Final = "unisono.io/working-directory"
"""On a pod: folder in which containers without ``workingDir`` start, on a node that runs them as processes."""

VERDICT: Final = "unisono.io/verdict"
"""On a PodGroup: the latest verdict as JSON."""

RUN_SECONDS: Final = "unisono.io/run-seconds"
"""On a pod: how long a simulated node runs it."""

EXIT_CODE: Final = "unisono.io/exit-code"
"""On a pod: how it ends on a simulated node."""
