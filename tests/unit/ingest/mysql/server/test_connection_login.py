"""Rogue servers: whatever they ask for, the password is not given away. Settings that fit no server are refused."""

from __future__ import annotations

import contextlib
import datetime as dt
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from penstock.errors import ConfigError, SourceError
from penstock.ingest.mysql.actions import conf_section
from penstock.ingest.mysql.errors import PasswordExposed
from penstock.ingest.mysql.server.address import Secret, ServerAddress, Tls
from penstock.ingest.mysql.server.connection import connect
from tests.waiting import ended

PASSWORD = "s3cret-PW"
SALT = b"A" * 8 + b"B" * 12
TLS = 0x800
KEY = rsa.generate_private_key(65537, 2048)
PEM = KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@dataclass
class Rogue:
    """One connection's server side; `heard` is all that the client said."""

    wire: socket.socket
    tls: ssl.SSLContext | None = None
    heard: list[bytes] = field(default_factory=list)
    number: int = 0

    def say(self, body: bytes) -> None:
        self.wire.sendall(struct.pack("<I", len(body))[:3] + bytes([self.number]) + body)
        self.number += 1

    def hear(self) -> bytes:
        head = self.wire.recv(4, socket.MSG_WAITALL) if not isinstance(self.wire, ssl.SSLSocket) else self._read(4)
        if len(head) < 4:
            return b""
        body = self._read(int.from_bytes(head[:3], "little"))
        self.number = head[3] + 1
        self.heard.append(body)
        return body

    def _read(self, count: int) -> bytes:
        found = b""
        while len(found) < count and (piece := self.wire.recv(count - len(found))):
            found += piece
        return found

    def greet(self, plugin: bytes) -> None:
        flags = 0x1 | 0x200 | 0x8000 | 0x80000 | 0x2000 | 0x8 | (TLS if self.tls else 0)
        self.say(
            b"\x0a8.0.36\0" + struct.pack("<I", 7) + SALT[:8] + b"\0" + struct.pack("<H", flags & 0xFFFF) + b"\x2d"
            + struct.pack("<HH", 2, flags >> 16) + bytes([21]) + b"\0" * 10 + SALT[8:] + b"\0" + plugin + b"\0"
        )  # fmt: skip
        self.hear()
        if self.tls:
            self.wire = self.tls.wrap_socket(self.wire, server_side=True)
            self.hear()


def switching(plugin: bytes, rest: bytes = b"") -> Callable[[Rogue], None]:
    def play(rogue: Rogue) -> None:
        rogue.greet(b"mysql_native_password")
        rogue.say(b"\xfe" + plugin + b"\0" + rest)
        rogue.hear()
        if plugin == b"sha256_password":
            rogue.say(b"\x01" + PEM)
            rogue.hear()

    return play


def sha2(rogue: Rogue) -> None:
    rogue.greet(b"caching_sha2_password")
    rogue.say(b"\x01\x04")
    if rogue.hear() == b"\x02":
        rogue.say(b"\x01" + PEM)
        rogue.hear()


def sha256(rogue: Rogue) -> None:
    rogue.greet(b"sha256_password")
    rogue.say(b"\x01" + PEM)
    rogue.hear()


PLAYS = {
    "clear": switching(b"mysql_clear_password"),
    "dialog": switching(b"dialog", b"\x02Password: "),
    "old": switching(b"mysql_old_password", SALT[:8] + b"\0"),
    "sha256 by a switch": switching(b"sha256_password", SALT + b"\0"),
    "sha256": sha256,
    "caching_sha2": sha2,
}


@contextmanager
def serving(play: Callable[[Rogue], None], tls: ssl.SSLContext | None = None) -> Iterator[tuple[ServerAddress, list]]:
    listener = socket.create_server(("127.0.0.1", 0))
    received: list[bytes] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                wire, _ = listener.accept()
                rogue = Rogue(wire, tls, received)
                with contextlib.suppress(OSError):
                    play(rogue)
                rogue.wire.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    address = ServerAddress("127.0.0.1", listener.getsockname()[1], "repl", Secret(PASSWORD), connect_timeout=240)
    try:
        yield replace(address, read_timeout=240), received
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        ended(thread)


def read(data: bytes) -> bytes:
    """Return the password that a rogue server reads from an answer: in clear, or encrypted with its key."""
    try:
        plain = KEY.decrypt(data, padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None))
    except ValueError:
        return data
    return bytes(byte ^ SALT[place % 20] for place, byte in enumerate(plain))


def knows(received: list[bytes]) -> bool:
    return any(PASSWORD.encode() in read(data) for data in received)


@pytest.mark.parametrize("mode", ["preferred", "disabled"])
@pytest.mark.parametrize("play", PLAYS)
def test_without_tls_no_server_gets_the_password(play: str, mode: str) -> None:
    with serving(PLAYS[play]) as (address, received):
        with pytest.raises(PasswordExposed) as refused:
            connect(replace(address, tls=Tls(mode)))
        assert received
        assert not knows(received)
    assert refused.value.hint
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize("play", ["sha256", "caching_sha2", "sha256 by a switch"])
def test_a_public_key_is_requested_from_the_server_if_allowed(play: str) -> None:
    with serving(PLAYS[play]) as (address, received):
        with pytest.raises(SourceError):  # the rogue hangs up
            connect(replace(address, tls=Tls(public_key_retrieval=True)))
        assert knows(received)


@pytest.mark.parametrize("play", ["sha256", "caching_sha2", "sha256 by a switch"])
def test_only_the_key_of_the_file_is_used(play: str, tmp_path: Path) -> None:
    other = rsa.generate_private_key(65537, 2048).public_key()
    file = tmp_path / "key.pem"
    file.write_bytes(other.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    with serving(PLAYS[play]) as (address, received):
        with pytest.raises(SourceError):
            connect(replace(address, tls=Tls(public_key=str(file))))
        assert received
        assert not knows(received)


@pytest.mark.parametrize("content", ["", "no key", PEM.decode()[:200]])
def test_a_file_without_a_public_key_is_an_error_of_the_configuration(content: str, tmp_path: Path) -> None:
    """Otherwise it would be an unreadable answer of the server, which is requested again."""
    file = tmp_path / "key.pem"
    file.write_text(content)
    with pytest.raises(ConfigError, match="public key") as refused:
        connect(ServerAddress("127.0.0.1", 1, "repl", Secret(PASSWORD), Tls(public_key=str(file)), patience=60))
    assert refused.value.facts["file"] == str(file)


@pytest.mark.parametrize("host", ["db..example", "x" * 64 + ".example"])
def test_a_host_name_that_no_server_has_is_an_error_of_the_configuration(host: str) -> None:
    with pytest.raises(ConfigError, match="host name"):
        connect(ServerAddress(host, 3306, "repl", Secret(PASSWORD), patience=60))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(KEY.public_key()).serial_number(1)
        .not_valid_before(now - dt.timedelta(1)).not_valid_after(now + dt.timedelta(1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(KEY, hashes.SHA256())
    )  # fmt: skip
    form = serialization.PrivateFormat.TraditionalOpenSSL
    key = KEY.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    file = tmp_path_factory.mktemp("tls") / "server.pem"
    file.write_bytes(key + made.public_bytes(serialization.Encoding.PEM))
    return file


@pytest.mark.parametrize("play", ["clear", "dialog", "old"])
@pytest.mark.parametrize("mode", ["preferred", "required"])
def test_the_clear_password_is_not_sent_over_unverified_tls(play: str, mode: str, certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(PLAYS[play], context) as (address, received):
        with pytest.raises(PasswordExposed):
            connect(replace(address, tls=Tls(mode)))
        assert not knows(received)
        if play != "old":
            for tls in (Tls(mode, cleartext_password=True), Tls("verify-ca", ca=str(certificate))):
                received.clear()
                with pytest.raises(SourceError):
                    connect(replace(address, tls=tls))
                assert knows(received)


def test_the_properties_of_jdbc_have_the_same_effect() -> None:
    conf = {"hostname": "h", "username": "u", "password": "p", "database-name": "d"}
    given = {"jdbc.properties.useSSL": "false", "jdbc.properties.allowPublicKeyRetrieval": "true"}
    assert conf_section(conf | given, names_table=False)["ssl"] == {
        "mode": "disabled",
        "allow-public-key-retrieval": True,
    }
    assert "ssl" not in conf_section(conf, names_table=False)
