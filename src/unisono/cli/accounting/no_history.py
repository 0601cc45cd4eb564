"""There is no history to show, and where there may be one."""

from __future__ import annotations

from unisono.errors import UnisonoError

KEPT_ELSEWHERE = (
    "'unisono up' keeps one. On a cluster the controllers write one into a database that you name, and the dashboard "
    "shows it to every user: 'unisono install --dashboard --history-dsn-secret NAME'. In another namespace than "
    "unisono-system, say --system-namespace; with the database's password, --history-dsn-file reads it without a "
    "dashboard."
)


class NoHistory(UnisonoError):
    """The server keeps none, or does not show it."""
