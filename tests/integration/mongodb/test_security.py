"""TLS with certificates of both sides, and login by SCRAM, at the stand-in server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pymongo import MongoClient

from penstock.errors import SourceError
from penstock.ingest.database.findings import MissingGrant
from tests.integration.kafka.certificates import issued
from tests.integration.mongodb.sync import DATABASE, MongoPlayground, MongoSync
from tests.servers.launch import free_port, start, stop

pytestmark = pytest.mark.mongodb
PASSWORD = "a:b/c@d%20"
ROLES = [{"role": "read", "db": DATABASE}, {"role": "read", "db": "local"}]


@dataclass(frozen=True)
class Guarded:
    """A server that wants a login, and certificates of its clients."""

    port: int
    authority: Path
    client: Path

    def sync(self, folder: Path, password: str = PASSWORD, *, user: str = "cdc", tls: str | None = None) -> MongoSync:
        options = f"tls=true&tlsCAFile={self.authority}&tlsCertificateKeyFile={self.client}" if tls is None else tls
        conf = [f"username={user}", f"password={password}", f"connection.options=authSource=admin&{options}"]
        with MongoClient("127.0.0.1", self.port, connect=False) as unused:
            return MongoSync(MongoPlayground(f"127.0.0.1:{self.port}", unused), folder, "orders", conf)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    authority, server, client = folder / "ca.pem", folder / "server.pem", folder / "client.pem"
    ca = issued("authority")
    authority.write_text(ca.chain_pem)
    for path in (server, client):
        own = issued(path.stem, ca)
        path.write_text(own.key_pem + own.chain_pem)
    port = free_port()
    start("mongodb", folder / "server", port)
    with MongoClient("127.0.0.1", port) as made:
        made.admin.command("createUser", "cdc", pwd=PASSWORD, roles=ROLES)
        made.admin.command("createUser", "stranger", pwd=PASSWORD, roles=[{"role": "read", "db": "other"}])
        made[DATABASE].orders.insert_many([{"_id": number, "v": f"v{number}"} for number in range(3)])
    stop("mongodb", folder / "server")
    files = ["--tls-cert-file", str(server), "--tls-key-file", str(server), "--tls-ca-file", str(authority)]
    start("mongodb", folder / "server", port, "--auth", *files, "--tls-require-client-cert")
    try:
        yield Guarded(port, authority, client)
    finally:
        stop("mongodb", folder / "server")


def test_documents_are_read_with_login_and_certificates_of_both_sides(guarded: Guarded, tmp_path: Path) -> None:
    sync = guarded.sync(tmp_path)
    sync.run()
    assert {row["_id"]: row["v"] for row in sync.target().scan().to_arrow().to_pylist()} == {
        str(number): f"v{number}" for number in range(3)
    }
    assert PASSWORD not in "".join(path.read_text() for path in (tmp_path / "checkpoint").rglob("*.json"))


def test_a_wrong_password_and_missing_rights_name_the_user_and_the_role(guarded: Guarded, tmp_path: Path) -> None:
    for sync in (guarded.sync(tmp_path, "wrong"), guarded.sync(tmp_path, user="stranger")):
        with pytest.raises(MissingGrant, match="the role read on the databases"):
            sync.run()


def test_a_certificate_of_an_unknown_authority_is_refused_at_once(guarded: Guarded, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not accept the certificate") as raised:
        guarded.sync(tmp_path, tls="tls=true&serverSelectionTimeoutMS=500").run()
    assert not raised.value.retryable
    assert "tlsCAFile" in str(raised.value)
