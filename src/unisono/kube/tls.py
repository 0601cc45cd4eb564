"""TLS contexts for a cluster's configuration."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from unisono.errors import ConfigError
from unisono.kube.kubeconfig import ClusterConfig


def context(config: ClusterConfig) -> ssl.SSLContext | None:
    """The context to connect with, None for plain HTTP.

    Raises:
        ConfigError: a certificate or key is not usable.

    """
    if not config.server.startswith("https://"):
        return None
    try:
        result = ssl.create_default_context(cadata=config.ca.decode() if config.ca else None)
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(f"the certificate authority of {config.server} is not valid PEM: {error}") from error
    if config.insecure:
        result.check_hostname = False
        result.verify_mode = ssl.CERT_NONE
    if config.client_certificate and config.client_key:
        _load_pair(result, config.client_certificate, config.client_key)
    return result


def _load_pair(target: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # OpenSSL reads key pairs from files only; the file is private and gone again at once.
    with tempfile.TemporaryDirectory(prefix="unisono-tls-") as folder:
        file = Path(folder) / "pair.pem"
        file.touch(mode=0o600)
        file.write_bytes(certificate.rstrip() + b"\n" + key)
        try:
            target.load_cert_chain(file)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(f"the client certificate and key do not fit or are not PEM: {error}") from error
