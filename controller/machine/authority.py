"""The cluster's CA and the certificate of its master, which are made here. All clients of the master pin the CA
(`controller.machine.tls`).

The CA signs nothing but its master's certificate, so a server that answers under it is the master. Only this module uses the
library `cryptography`.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import socket
from collections.abc import Iterable
from pathlib import Path

import psutil
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controller.machine.files import write_whole
from stage_model.errors import Unavailable

LASTS = dt.timedelta(days=3650)
EARLIER = dt.timedelta(days=1)
"""Time before its making from which a certificate holds, for machines whose clocks are behind."""
ALWAYS = ("localhost", "127.0.0.1", "::1")
"""Names of a master on its own machine."""


def certify(ca: Path, public: Path, into: Path, names: Iterable[str]) -> None:
    """Write the master's key and certificate, good for `names` (hosts and addresses), into `into`.

    `ca` has the CA's key and certificate; it is made if it is not there. `public` has only its certificate, for clients that
    pin it. Raise `Unavailable` for files that cannot be used."""
    try:
        if not ca.exists():
            write_whole(ca, _new_ca())
        found = ca.read_bytes()
        authority, key = x509.load_pem_x509_certificate(found), serialization.load_pem_private_key(found, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or authority.public_key() != key.public_key():
            raise ValueError("its key and its certificate do not belong together")
        if authority.not_valid_after_utc <= _now():
            raise ValueError(f"it ended on {authority.not_valid_after_utc:%Y-%m-%d}")
        if not public.exists() or public.read_bytes() != _pem(authority):
            write_whole(public, _pem(authority))
        made = ec.generate_private_key(ec.SECP256R1())
        write_whole(into, _pem(made) + _pem(_signed("Sparkpace master", made, authority, key, names)))
    except OSError as error:
        raise Unavailable(f"the master's certificate cannot be made ({error}); {ca.parent} must be writable") from error
    except (ValueError, TypeError) as error:
        raise Unavailable(
            f"the CA in {ca} cannot be used ({error}); remove it, then `sparkpace up` makes a new one,"
            f" of which other machines need the new {public.name}"
        ) from error


def _new_ca() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return _pem(key) + _pem(_signed("Sparkpace cluster CA", key, None, key, ()))


def names_of(host: str, further: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names of a master that listens on `host`: always the names for its own machine, and the names for other
    machines where it listens for them."""
    names = dict.fromkeys((*ALWAYS, host, *further))
    if host in ("0.0.0.0", "::"):
        names[socket.gethostname()] = None
        families = (socket.AF_INET, socket.AF_INET6)
        addresses = [one for there in psutil.net_if_addrs().values() for one in there if one.family in families]
        names |= dict.fromkeys(one.address.partition("%")[0] for one in addresses)
    return tuple(names)


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    ca: x509.Certificate | None,
    ca_key: ec.EllipticCurvePrivateKey,
    names: Iterable[str],
) -> x509.Certificate:
    """Return a certificate of `key`; `ca` None: it is the CA's own."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    ca_public = ca_key.public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if ca is None else ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_now() - EARLIER)
        .not_valid_after(_now() + LASTS if ca is None else ca.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=ca is None, path_length=0 if ca is None else None), critical=True)
        .add_extension(_usage(signs=ca is None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_public), critical=False)
    )
    if ca is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
    return builder.sign(ca_key, hashes.SHA256())


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(it: ec.EllipticCurvePrivateKey | x509.Certificate) -> bytes:
    if isinstance(it, x509.Certificate):
        return it.public_bytes(serialization.Encoding.PEM)
    return it.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
