"""Wall-clock times in traces."""

from __future__ import annotations

from datetime import UTC, datetime

from unisono.simulator.files import InputError, Row


def seconds_of(row: Row, column: str) -> float:
    """Seconds since 1970 of a time such as ``2017-10-09 07:01:55``, with an offset or without (UTC then).

    Raises:
        InputError: the cell holds none.

    """
    text = row.text(column)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{row.where}: {column}: {text!r} is not a time such as 2017-10-09 07:01:55") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
