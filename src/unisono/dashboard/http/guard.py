"""What every request must bring before anything else is looked at, and what every answer says to the browser (pure).

A page of another site may make a browser send requests here, and may give this address a name of its own (DNS
rebinding). So the Host header must be one of ours, a request that another site has caused is refused, and what is more
than a file of the page needs a header that no other site can set, with a key that no other site can read.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

KEY_HEADER = "X-Unisono-Key"
TOKEN_HEADER = "X-Unisono-Token"  # noqa: S105  # nosec B105 # a name
"""In which commands send the user's token. Authorization does not do: API servers take it out of what they pass on."""
QUESTIONS = "/api/questions/"
"""Below it commands ask. A browser has nothing to send along there by itself: cookies are not looked at."""

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}

_SAFE = ("GET", "HEAD")
_OWN_SITES = ("same-origin", "none")


def hosts_of(host: str, port: int, names: Collection[str] = ()) -> frozenset[str]:
    """Host headers that name this server.

    Args:
        host: address that it listens on.
        port: of it.
        names: further names under which a proxy or a Service reaches it, with a port where it is not the usual one.
    """
    shown = f"[{host}]" if ":" in host else host
    own = {shown, "localhost", "127.0.0.1", "[::1]"} - {""}
    return frozenset({f"{each}:{port}".lower() for each in own} | {each.lower() for each in names})


def refusal(method: str, path: str, headers: Mapping[str, str], hosts: Collection[str], scheme: str) -> str:
    """Why a request is not even looked at; empty where it is."""
    if path.startswith(QUESTIONS):
        return _refused_question(method, headers)
    host = headers.get("Host", "").lower()
    if host not in hosts:
        return "This server does not go by the name in the Host header."
    origin = headers.get("Origin", "")
    if origin and origin.lower() != f"{scheme}://{host}":
        return "Requests of other sites are refused."
    if not path.startswith("/api/"):
        return "" if method in _SAFE else "Files of the page are read alone."
    if headers.get("Sec-Fetch-Site", "same-origin") not in _OWN_SITES:
        return "Requests of other sites are refused."
    if method not in _SAFE:
        media = headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if media != "application/json":
            return "Content-Type must be application/json."
    return ""


def _refused_question(method: str, headers: Mapping[str, str]) -> str:
    """Commands reach the dashboard under any name: of its Service at the API server, or of a forwarded port."""
    if method != "GET":
        return "Questions are asked with GET."
    if "Origin" in headers or headers.get("Sec-Fetch-Site", "none") != "none":
        return "This is for commands, and not for pages."
    return ""


# The built page: read once into memory, so that no path of a request ever names a file of this machine.

BUILT = Path(__file__).parents[1] / "page" / "dist"
HOW_TO_BUILD = "The dashboard's page is not built: run 'make dashboard' in the clone."
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class File:
    """One file of the page."""

    body: bytes
    content_type: str


def is_built(folder: Path = BUILT) -> bool:
    """Whether there is a page to serve."""
    return (folder / "index.html").is_file()


def read_files(folder: Path = BUILT) -> dict[str, File]:
    """All files of the built page by their path in the address; empty where it is not built."""
    if not is_built(folder):
        return {}
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".map")
    return {f"/{path.relative_to(folder).as_posix()}": File(path.read_bytes(), _type(path)) for path in files}


def _type(path: Path) -> str:
    content_type = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"{content_type}; charset=utf-8" if content_type.startswith("text/") else content_type
