"""What a program said and how it ended, as the cause of a failure: its exception, exit code or signal (pure)."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from unisono.sdk.progress import steps_of_line

_TRACEBACK = "Traceback (most recent call last):"
# PyTorch puts the rank before each line of a traceback.
_RANK = re.compile(r"^\[rank\d+\]:\s?")
# Exception groups are drawn as trees.
_TREE = re.compile(r"^\s*[|+] (?:Exception Group )?")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?::\s|:?$)")
# How programs complain that another one is gone: they followed, and did not fail by themselves.
_LOST_PEER = re.compile(
    r"ConnectionReset|ConnectionRefused|ConnectionAborted|BrokenPipe|EOFError|Connection (?:closed|reset|refused)"
    r"|DistBackendError|DistNetworkError|DistStoreError|[Gg]loo|NCCL|ncclRemoteError|socket ?Timeout|TCPStore"
    r"|^srun: error: "
    r"|[Ll]ost (?:connection|peer)|peer (?:has )?(?:closed|exited|failed)|recvValue|MPI_Abort|coordination service",
)
# How programs without a traceback complain: "x: error: ...", "bash: line 1: foo: command not found". Before a number
# such a word is a measure: "validation error 0.12".
_COMPLAINT = re.compile(
    r"\b(?:error|fatal|panic(?:ked)?|abort(?:ed|ing)?|fail(?:ed|ure)?|exception|assert(?:ion)?|denied|refused|invalid"
    r"|unknown|illegal|usage|cannot|can't|could not|couldn't|unable|not found|no such|not permitted|not allowed|missing"
    r"|required|expected|unrecognized|unsupported|overflow|out of|killed|terminat\w+|segmentation|core dumped"
    r"|timed out|timeout)\b(?!\s*[:=]?\s*[\d.])|[A-Z]\w*(?:Error|Exception)\b",
    re.IGNORECASE,
)
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class LastWords:
    """The end of a program's log.

    Attributes:
        text: the exception's line, else the last line; empty where it wrote nothing.
        at: when that line was written, RFC 3339; empty where it is not known.
        exception: it is the last line of a traceback.
        complaint: it says that something is wrong, and not only how far the program was.

    """

    text: str = ""
    at: str = ""
    exception: bool = False
    complaint: bool = False

    @property
    def lost_peer(self) -> bool:
        """The program complains that another process is gone."""
        return bool(_LOST_PEER.search(self.text))


def last_words(lines: Iterable[tuple[str, str]]) -> LastWords:
    """The cause that a log ends with.

    Args:
        lines: time and text of the last lines.

    """
    found = LastWords()
    plain = LastWords()
    inside = False
    for at, raw in lines:
        text = _RANK.sub("", raw.rstrip())
        if text.strip():
            plain = LastWords(text.strip()[:_LONGEST], at)
        text = _TREE.sub("", text)
        if text.lstrip().startswith(_TRACEBACK):
            inside = True
        elif inside and text and not text[0].isspace() and _EXCEPTION.match(text):
            inside, found = False, LastWords(text[:_LONGEST], at, exception=True, complaint=True)
    return found if found.exception else replace(plain, complaint=_complains(plain.text))


def _complains(line: str) -> bool:
    return steps_of_line(line) is None and bool(_COMPLAINT.search(line))


def signal_of(exit_code: int | None) -> str:
    """Name of the signal that an exit code stands for, such as ``SIGSEGV`` for 139; empty for other codes."""
    if exit_code is None or not 128 < exit_code < 128 + 65:
        return ""
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return ""


def ending_text(exit_code: int | None, reason: str) -> str:
    """``exit code 3``, ``exit code 139 (SIGSEGV)``, ``OOMKilled``, or the reason that the node gave."""
    if reason == "DeadlineExceeded":
        return "it ran longer than its time limit (DeadlineExceeded)"
    if reason not in ("", "Error", "Completed"):
        return reason
    if exit_code is None:
        return reason or "no exit code"
    name = signal_of(exit_code)
    return f"exit code {exit_code}" + (f" ({name})" if name else "")


def first_of(ends: Sequence[tuple[str, LastWords]]) -> int:
    """Index of the process that failed first.

    Those that only lost another process come last, whatever the clock says. An exception's line tells the moment more
    exactly than the end of its container, which is known to the second and comes after all clean-up.

    Args:
        ends: of each process the end of its container, RFC 3339 in UTC, and its last words.

    """

    def order(number: int) -> tuple[bool, str]:
        ended, words = ends[number]
        # RFC 3339 in UTC sorts as text once the Z is gone: "07" comes before "07.1".
        return words.lost_peer, (words.at if words.exception and words.at else ended).rstrip("Z")

    return min(range(len(ends)), key=order)
