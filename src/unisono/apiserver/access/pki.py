"""The server's own certificate authority, its certificate, and certificates and tokens of clients."""

from __future__ import annotations

import ipaddress
import secrets
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from unisono.apiserver.access.files import LOOPBACK_NAMES, private_directory, write_private
from unisono.errors import ConfigError

_CA_LIFE = timedelta(days=3650)
_LEAF_LIFE = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=30)
# Certificates hold for the day before they were made, too: a clock that was ahead, by a time zone say, may be set back.
_SKEW = timedelta(days=1)

Extension = tuple[x509.ExtensionType, bool]


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key.

    Attributes:
        certificate: the X.509 certificate.
        key: its EC P-256 private key.
    """

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        """The certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The private key as unencrypted PKCS #8 PEM."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


class Authority:
    """A certificate authority in a directory; keys survive restarts, so that kubeconfig files stay valid."""

    def __init__(self, directory: Path, now: datetime) -> None:
        self._directory = private_directory(directory)
        self._now = now
        self.pair = self._load("ca") or self._save("ca", _make_ca(now))

    @property
    def ca_pem(self) -> bytes:
        """The CA certificate that clients trust."""
        return self.pair.certificate_pem

    def server_context(self, names: Sequence[str] = LOOPBACK_NAMES) -> ssl.SSLContext:
        """TLS settings of the server; makes or renews its certificate, which is valid for ``names``.

        Clients may show a certificate of this authority; they need not.
        """
        pair = self._load("server")
        if pair is None or not self._serves(pair.certificate, names):
            self._save("server", issue_server(self.pair, "unisono-apiserver", names, self._now, _LEAF_LIFE))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._directory / "server.crt", self._directory / "server.key")
        context.load_verify_locations(cadata=self.ca_pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        return context

    def issue_client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A client certificate: its common name is the user, its organisations are the groups."""
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return _sign(x509.Name(subject), self.pair, self._now, _LEAF_LIFE, _leaf(ExtendedKeyUsageOID.CLIENT_AUTH))

    def token(self, name: str) -> str:
        """A random bearer token of 256 bits, the same at every start."""
        path = self._directory / f"{name}.token"
        try:
            token = path.read_text().strip()
        except FileNotFoundError:
            token = ""  # nosec B105 # none yet
        if not token:
            token = secrets.token_urlsafe(32)
            write_private(path, token.encode())
        return token

    def _serves(self, certificate: x509.Certificate, names: Sequence[str]) -> bool:
        if certificate.not_valid_after_utc - self._now < _RENEW_BEFORE:
            return False
        if certificate.issuer != self.pair.certificate.subject:
            return False
        alternative_names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return all(_general_name(name) in alternative_names for name in names)

    def _load(self, name: str) -> KeyPair | None:
        certificate, key = self._directory / f"{name}.crt", self._directory / f"{name}.key"
        try:
            loaded = serialization.load_pem_private_key(key.read_bytes(), password=None)
            if not isinstance(loaded, ec.EllipticCurvePrivateKey):
                raise ValueError("not an EC key")
            return KeyPair(x509.load_pem_x509_certificate(certificate.read_bytes()), loaded)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"unreadable certificate or key ({error}); remove {self._directory} to have new ones made",
                file=str(certificate),
            ) from error

    def _save(self, name: str, pair: KeyPair) -> KeyPair:
        # The key goes first: a certificate without its key would look complete after a crash.
        write_private(self._directory / f"{name}.key", pair.key_pem)
        write_private(self._directory / f"{name}.crt", pair.certificate_pem, mode=0o644)
        return pair


def make_authority(now: datetime) -> KeyPair:
    """A new certificate authority, which no client trusts yet."""
    return _make_ca(now)


def issue_server(authority: KeyPair, subject: str, names: Sequence[str], now: datetime, life: timedelta) -> KeyPair:
    """A server's certificate for DNS names and addresses, valid for ``life``."""
    alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
    extensions = [*_leaf(ExtendedKeyUsageOID.SERVER_AUTH), (alternatives, False)]
    return _sign(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]), authority, now, life, extensions)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _make_ca(now: datetime) -> KeyPair:
    # The serial in the name keeps CAs of several data directories apart in clients' trust stores.
    name = f"unisono-ca-{secrets.token_hex(4)}"
    usage = _key_usage(key_cert_sign=True, crl_sign=True, digital_signature=True)
    extensions: list[Extension] = [(x509.BasicConstraints(ca=True, path_length=0), True), (usage, True)]
    return _sign(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), None, now, _CA_LIFE, extensions)


def _leaf(purpose: x509.ObjectIdentifier) -> list[Extension]:
    return [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_key_usage(digital_signature=True), True),
        (x509.ExtendedKeyUsage([purpose]), False),
    ]


def _key_usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _sign(
    subject: x509.Name, issuer: KeyPair | None, now: datetime, life: timedelta, extensions: Sequence[Extension]
) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer_key = issuer.key if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return KeyPair(builder.sign(issuer_key, hashes.SHA256()), key)


def utc_now() -> datetime:
    """The wall clock, for callers that have no other."""
    return datetime.now(UTC)
