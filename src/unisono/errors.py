"""The one tree of errors that Unisono raises on purpose.

::

    UnisonoError                 message is one sentence that says what to do
    ├── ConfigError              a configuration file or flag; knows file, line and key
    ├── ApiError                 an API server's Status: code, reason, details
    │   ├── NotFound             404
    │   ├── AlreadyExists        409, reason AlreadyExists
    │   ├── Conflict             409, reason Conflict
    │   ├── Gone                 410, reason Expired or Gone
    │   ├── Invalid              422, carries field errors
    │   │   └── Replaced         422 and yet a Conflict: another object has the name by now
    │   └── Unavailable          429, 5xx and connection failures: try again later
    ├── EngineError              a broken invariant of a decision; never leaves the scheduler loop
    └── AgentError               this machine cannot run a pod

Subclasses that belong to one room live there and derive from these.
"""

from __future__ import annotations

import os
from typing import Any


class UnisonoError(Exception):
    """Base of every error raised on purpose; ``str()`` is one sentence for the user."""


class ConfigError(UnisonoError):
    """A configuration value is wrong; names the file, the line (1-based) and the key where known."""

    def __init__(self, message: str, *, file: str = "", line: int = 0, key: str = "") -> None:
        self.file, self.line, self.key = file, line, key
        where = ":".join(part for part in (file, str(line) if line else "") if part)
        super().__init__(f"{where}: {message}" if where else message)


class SetAside(UnisonoError):
    """A controller cannot work on one object as it is; the sentence says what to change in the object.

    Attributes:
        reason: the same in one word, for conditions and events.

    """

    reason = "ReconcileFailed"


class ApiError(UnisonoError):
    """A Kubernetes ``Status`` of kind Failure.

    Args:
        message: the Status message, as Kubernetes words it.
        code: HTTP status code.
        reason: machine-readable reason such as ``NotFound``.
        details: the Status ``details`` object (name, group, kind, causes, retryAfterSeconds).

    Attributes:
        warnings: what the writer is told besides, as with a success.
    """

    warnings: tuple[str, ...] = ()
    code = 500
    reason = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        reason: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = self.code if code is None else code
        self.reason = self.reason if reason is None else reason
        self.details = details or {}


class NotFound(ApiError):
    """The object, or the kind, does not exist."""

    code, reason = 404, "NotFound"


class AlreadyExists(ApiError):
    """An object of that name exists."""

    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    """The object changed since it was read, or a precondition failed."""

    code, reason = 409, "Conflict"


class Gone(ApiError):
    """The resourceVersion is too old: list again."""

    code, reason = 410, "Expired"


class Invalid(ApiError):
    """The object breaks a rule; ``details['causes']`` names the fields."""

    code, reason = 422, "Invalid"


class Replaced(Conflict, Invalid):
    """A patch names a ``metadata.uid`` that is not the object's: that one has gone, and another has its name.

    Servers answer it as a change of an immutable field; where the uid is a precondition it is a conflict.
    """

    code, reason = 422, "Invalid"


class Unavailable(ApiError):
    """The server cannot answer now (429, 5xx, no connection): try again after ``retry_after`` seconds."""

    code, reason = 503, "ServiceUnavailable"
    retry_after: float | None = None


class EngineError(UnisonoError):
    """An invariant of a decision does not hold."""


class AgentError(UnisonoError):
    """A pod cannot run on this machine as its spec asks."""


_BY_REASON: dict[str, type[ApiError]] = {
    "NotFound": NotFound,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Expired": Gone,
    "Gone": Gone,
    "Invalid": Invalid,
    "TooManyRequests": Unavailable,
    "ServiceUnavailable": Unavailable,
    "Timeout": Unavailable,
    "ServerTimeout": Unavailable,
    "InternalError": Unavailable,
}


def system_reason(error: OSError) -> str:
    """What the system says, such as ``Address already in use``: asyncio's text names the address once more."""
    # Failures to resolve a name have negative numbers, which the system does not know.
    if error.errno and error.errno > 0:
        return os.strerror(error.errno)
    if text := error.strerror or str(error):
        return text
    # asyncio raises these without a word when the other side goes away while a connection is being made.
    return "it did not answer in time" if isinstance(error, TimeoutError) else "the connection broke"


def _names_uid(status: dict[str, Any]) -> bool:
    causes = (status.get("details") or {}).get("causes") or ()
    return any(cause.get("field") == "metadata.uid" for cause in causes if isinstance(cause, dict))


def from_status(status: dict[str, Any], http_code: int = 500) -> ApiError:
    """Turn a Kubernetes ``Status`` object (decoded JSON) into the matching error."""
    reason = str(status.get("reason") or "")
    code = int(status.get("code") or http_code)
    kind = _BY_REASON.get(reason) or (Unavailable if code >= 500 or code == 429 else ApiError)
    if kind is Invalid and _names_uid(status):
        kind = Replaced
    error = kind(
        str(status.get("message") or f"the server answered {code}"),
        code=code,
        reason=reason or kind.reason,
        details=status.get("details") or {},
    )
    if isinstance(error, Unavailable):
        seconds = error.details.get("retryAfterSeconds")
        error.retry_after = float(seconds) if seconds is not None else None
    return error
