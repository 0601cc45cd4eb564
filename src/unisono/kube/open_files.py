"""The limit on open files of this process: raised for a server, and given back to the programs that it starts."""

from __future__ import annotations

import contextlib
import resource

_given = resource.getrlimit(resource.RLIMIT_NOFILE)


def open_files() -> int:
    """How many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft


def raise_open_files() -> int:
    """Raise the soft limit to the hard one, and return what holds now.

    Programs that use ``select`` break where descriptors are above 1023, so the soft limit is low by default; an event
    loop doesn't use it.
    """
    _, hard = _given
    with contextlib.suppress(OSError, ValueError):  # some systems refuse "unlimited"
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return open_files()


def give_back(pid: int) -> None:
    """Give a child process the limit that this one was started with."""
    # It may have ended; where there is no prlimit (macOS), it keeps the raised one.
    with contextlib.suppress(OSError, AttributeError):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, _given)
