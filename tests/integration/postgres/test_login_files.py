"""Passwords and parameters from the files of libpq, for users who keep them there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.ingest.database.findings import MissingGrant
from tests.here import run
from tests.integration.postgres.sync import DATABASE, PgPlayground, PgSync

pytestmark = pytest.mark.postgres
USER, PASSWORD = "filed", "from-a-file"


@pytest.fixture
def guarded(server: PgPlayground) -> Iterator[PgPlayground]:
    """Let one user log in by its password alone; the others need none."""
    rules = Path(server.run("SHOW hba_file"))
    before = rules.read_text(encoding="utf-8")
    server.run(
        f"DROP ROLE IF EXISTS {USER}",
        f"CREATE ROLE {USER} LOGIN REPLICATION PASSWORD '{PASSWORD}'",
        f"GRANT cdc TO {USER}",
    )
    server.run(f"GRANT ALL ON DATABASE {DATABASE} TO {USER}")
    rules.write_text(f"host all {USER} 127.0.0.1/32 scram-sha-256\n{before}", encoding="utf-8")
    server.run("SELECT pg_reload_conf()")
    yield server
    rules.write_text(before, encoding="utf-8")
    server.run("SELECT pg_reload_conf()")


@pytest.mark.parametrize("kind", ["PGPASSFILE", "PGSERVICEFILE", "none"])
def test_the_password_comes_from_a_file_of_libpq(
    guarded: PgPlayground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As environment variables name it; the address itself is that of the pipeline."""
    monkeypatch.setenv("HOME", str(tmp_path))
    files = {
        "PGPASSFILE": f"127.0.0.1:{guarded.port}:{DATABASE}:{USER}:{PASSWORD}\n",
        "PGSERVICEFILE": f"[shop]\nhost=elsewhere.invalid\nuser=nobody\npassword={PASSWORD}\n",
    }
    if kind in files:
        path = tmp_path / "libpq"
        path.write_text(files[kind], encoding="utf-8")
        path.chmod(0o600)
        monkeypatch.setenv(kind, str(path))
    if kind == "PGSERVICEFILE":
        monkeypatch.setenv("PGSERVICE", "shop")
    guarded.create("t", "id int PRIMARY KEY, v text")
    guarded.run("INSERT INTO t VALUES (1, 'a')")
    sync = PgSync(guarded, tmp_path, conf=[f"username={USER}"])
    spec = sync.spec
    spec = spec.model_copy(update={"source": spec.source.model_copy(update={"password": ""})})
    if kind == "none":
        with pytest.raises(MissingGrant):
            run(spec)
        return
    run(spec)
    guarded.run("INSERT INTO t VALUES (2, 'b')")
    run(spec)
    assert set(sync.rows("t")) == {1, 2}
