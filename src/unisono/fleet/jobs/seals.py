"""Seals of dispatches: only the hub can say that it sent a job to a member under a number (pure).

A hub that was restored from an older backup learns from copies which dispatches it has forgotten. Without a seal, a
member could raise the number on its copy, or bring back an old one, and take a job from another member.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

KEY_BYTES: Final = 32
_LENGTH: Final = 40


def seal(key: bytes, origin: str, cluster: str, generation: int) -> str:
    """The seal of one dispatch.

    Args:
        key: the hub's.
        origin: uid of the hub's job.
        cluster: the member.
        generation: number of the dispatch.

    """
    text = f"{len(origin)}:{origin}/{len(cluster)}:{cluster}/{generation}"
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:_LENGTH]


def is_sealed(key: bytes, text: str, origin: str, cluster: str, generation: int) -> bool:
    """Whether a text is the seal of this dispatch."""
    return hmac.compare_digest(text.encode(), seal(key, origin, cluster, generation).encode())
