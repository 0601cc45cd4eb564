"""What is asked of a container's log: the options of ``pods/log`` (``PodLogOptions``), read from the query."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which part of the log, and how it is shown; the defaults are all of it, as it was written.

    Attributes:
        follow: go on until this run of the container ends, else stop at the end of what is written.
        tail_lines: start that many lines before the end; None starts at the beginning.
        since_seconds: leave out lines older than this.
        timestamps: put each line's RFC 3339 time in front of it.
        previous: the run before the present one.
        limit_bytes: stop after this many bytes.

    """

    follow: bool = False
    tail_lines: int | None = None
    since_seconds: float | None = None
    timestamps: bool = False
    previous: bool = False
    limit_bytes: int | None = None
