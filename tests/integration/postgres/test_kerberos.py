"""Logins by tickets of a real KDC, as libpq finds them: with and without Kerberos' own encryption."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.ingest.database.findings import ConnectionLost, MissingGrant
from penstock.pipelines.config.model import PipelineSpec
from tests.here import run
from tests.integration.postgres.sync import PgPlayground, PgSync
from tests.servers.launch import HERE, running

pytestmark = pytest.mark.postgres
REALM = "PENSTOCK.TEST"


@dataclass(frozen=True)
class Kdc:
    folder: Path

    def add(self, principal: str, keytab: str) -> Path:
        """Add a principal; return the file with its key."""
        self._script("keytab", principal, str(self.folder / keytab))
        return self.folder / keytab

    def log_in(self, principal: str, keytab: Path, cache: Path) -> None:
        self._script("login", principal, str(keytab), str(cache))

    def _script(self, action: str, *words: str) -> None:
        done = subprocess.run(
            [HERE / "kerberos.sh", action, self.folder, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def kdc(server_port: int) -> Iterator[Kdc]:
    """Start a realm that contains the server and the pipeline's user."""
    # Not below pytest's folders: the server reads its key as a user of its own.
    with tempfile.TemporaryDirectory(prefix="penstock-kerberos-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with running("kerberos", Path(folder)):
            realm = Kdc(Path(folder))
            key = realm.add("postgres/127.0.0.1", "server.keytab")
            server = PgPlayground(server_port)
            owner = Path(server.run("SHOW data_directory", database="postgres")).stat()
            shutil.chown(key, owner.st_uid, owner.st_gid)
            server.run(f"ALTER SYSTEM SET krb_server_keyfile = '{key}'", database="postgres")
            for user in ("cdc", "other"):
                realm.add(user, f"{user}.keytab")
            yield realm
            server.run("ALTER SYSTEM RESET krb_server_keyfile", "SELECT pg_reload_conf()", database="postgres")


@pytest.fixture
def tickets(kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which libpq looks for tickets, which does not exist yet."""
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.folder / "krb5.conf"))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    return tmp_path / "tickets"


@pytest.fixture
def guarded(
    request: pytest.FixtureRequest, tickets: Path, server: PgPlayground, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PgPlayground]:
    """Let the pipeline's user log in by a ticket alone, with or without encryption by Kerberos."""
    kind = getattr(request, "param", "hostnogssenc")
    # Not `require`: psql as the superuser has no ticket.
    monkeypatch.setenv("PGGSSENCMODE", "disable" if kind == "hostnogssenc" else "prefer")
    rules = Path(server.run("SHOW hba_file"))
    before = rules.read_text(encoding="utf-8")
    by_ticket = f"{kind} all cdc 127.0.0.1/32 gss include_realm=0 krb_realm={REALM}\n"
    rules.write_text(f"{by_ticket}host all cdc 127.0.0.1/32 reject\n{before}", encoding="utf-8")
    server.run("SELECT pg_reload_conf()")
    yield server
    rules.write_text(before, encoding="utf-8")
    server.run("SELECT pg_reload_conf()")


def spec_without_password(sync: PgSync) -> PipelineSpec:
    spec = sync.spec
    return spec.model_copy(update={"source": spec.source.model_copy(update={"password": ""})})


@pytest.mark.parametrize("guarded", ["hostnogssenc", "hostgssenc"], indirect=True)
def test_a_ticket_logs_in_for_the_snapshot_and_for_the_log(
    guarded: PgPlayground, kdc: Kdc, tickets: Path, tmp_path: Path
) -> None:
    kdc.log_in("cdc", kdc.folder / "cdc.keytab", tickets)
    guarded.create("t", "id int PRIMARY KEY, v text")
    guarded.run("INSERT INTO t SELECT n, repeat(md5(n::text), 10) FROM generate_series(1, 5000) n")
    sync = PgSync(guarded, tmp_path)
    spec = spec_without_password(sync)
    run(spec)
    guarded.run("UPDATE t SET v = md5(v) WHERE id > 10", "DELETE FROM t WHERE id = 7")
    run(spec)
    assert {verdict.is_equal for verdict in sync.verified(spec).values()} == {True}
    assert len(sync.rows("t")) == 4999


def test_a_missing_ticket_is_named(guarded: PgPlayground, tickets: Path, tmp_path: Path) -> None:
    guarded.create("t", "id int PRIMARY KEY, v text")
    assert not tickets.exists()
    with pytest.raises(ConnectionLost, match="kinit"):
        run(spec_without_password(PgSync(guarded, tmp_path)))


def test_the_ticket_of_another_user_is_refused_at_once(
    guarded: PgPlayground, kdc: Kdc, tickets: Path, tmp_path: Path
) -> None:
    guarded.create("t", "id int PRIMARY KEY, v text")
    kdc.log_in("other", kdc.folder / "other.keytab", tickets)
    with pytest.raises(MissingGrant, match="GSSAPI authentication failed"):
        run(spec_without_password(PgSync(guarded, tmp_path)))


def test_the_server_may_write_to_its_temporary_folder(server: PgPlayground) -> None:
    """Kerberos keeps the tickets that a server has seen in this folder, and accepts no ticket without it.

    Test processes that run at the same time have separate temporary folders, and the server has another user.
    """
    data = Path(server.run("SHOW data_directory"))
    leader = int((data / "postmaster.pid").read_text().splitlines()[0])
    variables = Path(f"/proc/{leader}/environ").read_text().split("\0")
    assert f"TMPDIR={data.parent}" in variables
    assert data.parent.stat().st_uid == data.stat().st_uid
