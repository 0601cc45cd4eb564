"""A key pair with which the pods of one job log in to each other."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


def new_keys() -> dict[str, str]:
    """``ssh-privatekey`` and ``ssh-publickey`` of a new ECDSA key (P-521), as a Secret's data holds them."""
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return {
        "ssh-privatekey": base64.b64encode(private).decode(),
        "ssh-publickey": base64.b64encode(public + b"\n").decode(),
    }
