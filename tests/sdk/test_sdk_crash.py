"""Causes of failures: what a log ends with, names of signals, and which process was the first."""

from __future__ import annotations

import pytest

from unisono.sdk.reasons.failures import LastWords, ending_text, first_of, last_words, signal_of

TRACEBACK = """epoch 3
Traceback (most recent call last):
  File "train.py", line 5, in <module>
    main()
    ^^^^^^
KeyError: 'label'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 7, in <module>
    raise data.Bad("no data") from None
data.Bad: no data
hint: look at shard 7
"""
GROUP = """[rank1]: Traceback (most recent call last):
[rank1]:   File "t.py", line 1, in <module>
[rank1]: torch.distributed.DistBackendError: NCCL error
"""


TREE = """  + Exception Group Traceback (most recent call last):
  |   File "t.py", line 7, in <module>
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "t.py", line 2, in f
    | ValueError: no data
    +------------------------------------
"""


def words(text: str) -> LastWords:
    return last_words((f"2026-01-01T00:00:{number:02}Z", line) for number, line in enumerate(text.splitlines()))


@pytest.mark.parametrize(
    ("text", "said", "exception", "lost"),
    [
        (TRACEBACK, "data.Bad: no data", True, False),
        (TREE, "ValueError: no data", True, False),
        (GROUP, "torch.distributed.DistBackendError: NCCL error", True, True),
        ("python: can't open file 'x.py'\n", "python: can't open file 'x.py'", False, False),
        ("Traceback (most recent call last):\n  File 'x'\nKeyboardInterrupt\n", "KeyboardInterrupt", True, False),
        ("", "", False, False),
        ("x" * 4000, "x" * 300, False, False),
    ],
)
def test_the_cause_is_the_last_exception_or_the_last_line(text: str, said: str, exception: bool, lost: bool) -> None:
    found = words(text)
    assert (found.text, found.exception, found.lost_peer) == (said, exception, lost)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("train.py: error: unrecognized arguments: --epohcs", True),
        ("bash: line 1: nvidia-smi: command not found", True),
        ("SyntaxError: '(' was never closed", True),
        ("terminate called after throwing an instance of 'std::bad_alloc'", True),
        ("Killed", True),
        ("progress: 3/3", False),
        ("progress: 3/100 after 2 failed tries", False),
        ("rank 1 of 2 in /home/me/project", False),
        ("epoch 3  loss 0.12  validation error 0.31", False),
        ("", False),
    ],
)
def test_what_a_line_tells_of_is_an_error_or_not(line: str, complaint: bool) -> None:
    assert words(line).complaint is complaint


def test_the_time_is_that_of_the_exceptions_line() -> None:
    assert words(TRACEBACK).at == "2026-01-01T00:00:12Z"


@pytest.mark.parametrize(
    ("code", "reason", "text"),
    [
        (3, "Error", "exit code 3"),
        (139, "Error", "exit code 139 (SIGSEGV)"),
        (137, "OOMKilled", "OOMKilled"),
        (255, "", "exit code 255"),
        (None, "Evicted", "Evicted"),
        (143, "DeadlineExceeded", "it ran longer than its time limit (DeadlineExceeded)"),
        (None, "", "no exit code"),
    ],
)
def test_how_a_container_ended(code: int | None, reason: str, text: str) -> None:
    assert ending_text(code, reason) == text


def test_signals_have_names() -> None:
    assert [signal_of(code) for code in (0, 1, 128, 130, 134, 193, None)] == ["", "", "", "SIGINT", "SIGABRT", "", ""]


SECOND = "2026-01-01T00:00:07Z"


def raised(at: str, text: str = "ValueError: x") -> LastWords:
    return LastWords(text, f"2026-01-01T00:00:{at}Z", exception=True)


@pytest.mark.parametrize(
    ("ends", "first"),
    [
        # Ends are known to the second, exceptions exactly, also where cleaning up takes long.
        ([(SECOND, raised("07.9")), (SECOND, raised("07.1"))], 1),
        ([(SECOND, raised("06.9")), ("2026-01-01T00:00:06Z", raised("06.95"))], 0),
        # Killed without a word, within this second.
        ([(SECOND, raised("07.1")), (SECOND, LastWords())], 1),
        # A process that only lost another one is not the first, whatever the clock says.
        ([(SECOND, raised("06.1", "ConnectionResetError: gone")), (SECOND, raised("07.1"))], 1),
        ([("2026-01-01T00:00:09Z", raised("09.0", "EOFError: x")), (SECOND, raised("07.0", "EOFError: x"))], 1),
        # What it wrote long before it was killed is no exception: its end counts.
        ([("2026-01-01T00:00:09Z", LastWords("epoch 1", "2026-01-01T00:00:01.5Z")), (SECOND, LastWords())], 1),
    ],
)
def test_which_process_failed_first(ends: list[tuple[str, LastWords]], first: int) -> None:
    assert first_of(ends) == first


def test_a_script_that_passes_on_how_a_task_of_srun_ended_did_not_fail_first() -> None:
    passed_on = LastWords("srun: error: task 1: Exited with exit code 1", complaint=True)
    assert first_of([("2026-01-01T00:00:00Z", passed_on), ("2026-01-01T00:00:01Z", LastWords("no data"))]) == 1
