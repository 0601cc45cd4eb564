"""Names of users: what a service account is called, and who counts as one tenant."""

from __future__ import annotations

from typing import Final

SERVICE_ACCOUNTS: Final = "system:serviceaccounts"
SERVICE_ACCOUNT_PREFIX: Final = "system:serviceaccount:"


def split_service_account(user: str) -> tuple[str, str] | None:
    """Namespace and name of a service account's user name; None for other users."""
    if not user.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, colon, name = user.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    return (namespace, name) if colon and namespace and name else None


def tenant(user: str) -> str:
    """Whose share a user takes, of the server and of queues: of a service account its namespace's, of others their own.

    Who may write in a namespace makes as many accounts there as they like, and acts as each of them.
    """
    account = split_service_account(user)
    return user if account is None else f"{SERVICE_ACCOUNTS}:{account[0]}"
