"""What a user sees of an unexpected error: one sentence, and a file with the traceback for a report."""

from __future__ import annotations

import os
import tempfile
import traceback

_LONGEST = 200


def sentence(error: Exception) -> str:
    """Name the error, with the file that its traceback was written to, as far as there is room on the disk."""
    try:
        handle, path = tempfile.mkstemp(prefix="unisono-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as stream:
            traceback.print_exception(error, file=stream)
    except OSError as failure:
        where = f"Its traceback could not be written to a file ({failure.strerror})."
    else:
        where = f"Please report it with {path}, which says where it happened."
    cause = error
    while isinstance(cause, ExceptionGroup) and len(cause.exceptions) == 1:
        cause = cause.exceptions[0]
    text = "".join(each for each in str(cause).partition("\n")[0][:_LONGEST] if each.isprintable())
    named = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
    return f"Unisono failed unexpectedly ({named}). {where}"
