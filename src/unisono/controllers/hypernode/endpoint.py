"""Fields that sources with a server share (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unisono.api.topology_sources import SourceFailed


def base_url(config: Mapping[str, Any]) -> str:
    """The address of the server; without a scheme it is HTTPS.

    Raises:
        SourceFailed: there is none.

    """
    endpoint = config.get("endpoint")
    if not isinstance(endpoint, str) or not endpoint.strip():
        raise SourceFailed("config.endpoint: it must be the address of the server, such as https://ufm.example.com")
    found = endpoint.strip().rstrip("/")
    return found if found.startswith(("http://", "https://")) else f"https://{found}"


def verifies(config: Mapping[str, Any]) -> bool:
    """Whether the server's certificate is checked; only a plain true for ``insecureSkipVerify`` leaves that out."""
    return config.get("insecureSkipVerify") is not True
