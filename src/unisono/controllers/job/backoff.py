"""How long a job, or a part of one, waits between restarts: the more have gone before, the longer."""

from __future__ import annotations

import hashlib

# The second restart waits about so long, each further one twice as long as the one before.
BASE_SECONDS = 10.0
MOST_SECONDS = 300.0
# Waits differ by up to this part up and down, so that jobs that failed together do not come back together.
SPREAD = 0.25


def restart_delay(uid: str, retry_count: int) -> float:
    """Seconds between a restart and the pods that it brings; none for the first.

    Args:
        uid: the job's UID: the same job waits equally long, also after a crash.
        retry_count: restarts so far, this one included.

    """
    if retry_count < 2:
        return 0.0
    delay = min(MOST_SECONDS, BASE_SECONDS * 2.0 ** min(retry_count - 2, 16))
    share = int.from_bytes(hashlib.sha256(f"{uid}/{retry_count}".encode()).digest()[:4]) / 2**32
    return delay * (1.0 - SPREAD + 2.0 * SPREAD * share)
