"""A secret in every place of a configuration: in no repr, no error, no log."""

from __future__ import annotations

import http.server
import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, PenstockError, without_login
from penstock.formats.debezium import schema_registry as registry
from penstock.formats.debezium.schema_registry import SchemaRegistry
from penstock.ingest.kafka.client import check_reachable as reach_kafka
from penstock.ingest.kafka.client import consumer
from penstock.ingest.kafka.properties import client_properties
from penstock.pipelines.commands import main as command_line
from penstock.pipelines.commands.main import main
from penstock.pipelines.config import yaml_file
from penstock.pipelines.monitor.webhook import WebhookObserver
from penstock.references import masked
from penstock.storage.open import open_storage
from tests.waiting import ended

HUSH = "hush-hush-7391"
KAFKA = """
source:
  type: kafka
  topic: t
  value.format: debezium-avro
  properties: {bootstrap.servers: "k:9092", %s}
  schema-registry: {url: "%s"}
sink: {catalog: {warehouse: "%s", options: {%s}}, database: ods}
observe: {notify: {webhook: "%s"}}
"""
PLAIN = ("sasl.username: u", "http://registry", "/w", "a: b", "https://chat/x")
PLACES = {
    "password": (0, f"sasl.password: {HUSH}"),
    "jaas": (0, f"sasl.jaas.config: 'x required password=\"{HUSH}\";'"),
    "key": (0, f"ssl.key.pem: {HUSH}"),
    "truststore": (0, f"ssl.truststore.password: {HUSH}"),
    "registry's URL": (1, f"http://user:{HUSH}@registry"),
    "warehouse": (2, f"s3://AK:{HUSH}@bucket/w"),
    "store's key": (3, f"s3.secret-key: {HUSH}"),
    "store's token": (3, f"s3.session.token: {HUSH}"),
    "account key": (3, f"fs.azure.account.key.a.dfs.core.windows.net: {HUSH}"),
    "webhook": (4, f"https://hooks.example/services/{HUSH}"),
}


@pytest.mark.parametrize("place", PLACES)
def test_no_description_of_a_pipeline_shows_a_secret(place: str) -> None:
    number, value = PLACES[place]
    parts = [*PLAIN[:number], value, *PLAIN[number + 1 :]]
    found = yaml_file.examine(KAFKA % tuple(parts))
    shown = "\n".join(map(str, found)) if isinstance(found, list) else repr(found) + str(found)
    assert HUSH not in shown


@pytest.mark.parametrize("place", PLACES)
def test_no_error_about_a_file_shows_a_secret(place: str) -> None:
    number, value = PLACES[place]
    key, colon, text = value.partition(": ")
    bad = f"{key}{colon}[{text}]" if colon else f"{value}\\n- {value}"
    parts = [*PLAIN[:number], bad, *PLAIN[number + 1 :]]
    found = yaml_file.examine(KAFKA % tuple(parts) + "unknown: x\n")
    assert isinstance(found, list)
    assert HUSH not in "\n".join(map(str, found))


@pytest.mark.parametrize(
    "name",
    [
        *("schema.registry.basic.auth.user.info", "sasl.jaas.config", "webhook", "s3.secret-key", "dfs.client.pw"),
        *("hadoop.security.pass", "passphrase", "sig", "connection.string", "password", "s3.session.token"),
    ],
)
def test_names_of_secret_options_are_recognised(name: str) -> None:
    assert masked(name, HUSH) == "***"
    assert masked(name, "${HUSH}") == "${HUSH}"


@pytest.mark.parametrize(
    "name",
    [
        "token.provider",
        "catalog-key",
        "dlf.token-path",
        "jdbc.allowPublicKeyRetrieval",
        "fs.gs.auth.service.account.json.keyfile",
        "security.kerberos.login.keytab",
    ],
)
def test_options_that_only_look_like_secrets_are_shown(name: str) -> None:
    assert masked(name, "bear") == "bear"


def test_urls_are_shown_without_credentials() -> None:
    assert without_login(f"a https://u:{HUSH}@h/p?x=1&sig={HUSH}&y=2 b") == "a https://h/p?x=1&sig=***&y=2 b"
    assert without_login("s3://bucket/a@b, http://h/p") == "s3://bucket/a@b, http://h/p"


def test_an_error_shows_no_login_of_a_url_that_is_where_none_belongs() -> None:
    error = PenstockError(f"cannot list s3://AK:{HUSH}@bucket/w", server=f"postgres://u:{HUSH}@h:1/d", offset=7)
    assert HUSH not in str(error) + repr(error)
    assert error.facts == {"server": "postgres://h:1/d", "offset": 7}


@pytest.mark.parametrize(
    "servers", [f"u:{HUSH}@127.0.0.1:1", f"a:1,SASL_SSL://u:{HUSH}@b:1", f"u:x,{HUSH}@127.0.0.1:1"]
)
def test_a_login_among_the_addresses_of_brokers_is_not_shown(servers: str) -> None:
    with pytest.raises(PenstockError, match=r"sasl\.password") as refused:
        reach_kafka({"bootstrap.servers": servers})
    assert HUSH not in str(refused.value)


@pytest.mark.parametrize(
    "url", [f"pulsar://u:{HUSH}@127.0.0.1:1", f"pulsar://127.0.0.1:1,u:{HUSH}@127.0.0.1:1", f"u:{HUSH}@127.0.0.1:1"]
)
def test_a_login_in_the_address_of_pulsar_is_not_shown(url: str) -> None:
    pytest.importorskip("pulsar")
    from penstock.ingest.pulsar.client import check_reachable
    from penstock.ingest.pulsar.errors import broker_error
    from penstock.ingest.pulsar.option_names import SERVICE_URL

    with pytest.raises(PenstockError) as refused:
        check_reachable({SERVICE_URL: url}, seconds=1)
    assert HUSH not in str(refused.value)
    bad: Any = RuntimeError("bad")
    assert HUSH not in str(broker_error(bad, url))


ADDRESSES = {
    "mysql": "hostname: {}, username: u, password: p, tables: [a.b]",
    "postgres": "hostname: {}, username: u, password: p, database-name: d, tables: [a.b], slot.name: s",
    "mongodb": "hosts: '{}', database: d",
}


@pytest.mark.parametrize("kind", ADDRESSES)
def test_a_login_in_the_address_of_a_database_is_refused_and_not_shown(kind: str) -> None:
    text = "source: {{type: {}, {}}}\nsink: {{catalog: {{warehouse: /w}}, database: d}}\n"
    found = yaml_file.examine(text.format(kind, ADDRESSES[kind].format(f"u:{HUSH}@127.0.0.1")))
    assert isinstance(found, list)
    assert "write it as username and password" in str(found[0])
    assert HUSH not in "\n".join(map(str, found))
    assert not isinstance(yaml_file.examine(text.format(kind, ADDRESSES[kind].format("127.0.0.1"))), list)


def test_tracebacks_of_libraries_show_no_login_of_an_address(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_words: object) -> int:
        cause = OSError(f"s3://AK:{HUSH}@b, 'u:{HUSH}@h:1', host=u:{HUSH}@[::1], a:1,u:{HUSH}@h")
        raise ValueError(f"no connection to postgres://u:{HUSH}@h:1/d, u:{HUSH}@h") from cause

    monkeypatch.setattr(command_line, "_run", fail)
    assert main(["check", "--debug"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "no connection to postgres://h:1/d" in shown
    assert HUSH not in shown


@pytest.mark.parametrize("login", ["u:p@{}", "u:p'{}", 'u:"{}', "{}"])
def test_a_login_has_any_characters_but_those_that_end_it(login: str) -> None:
    assert without_login(f"cannot read s3://{login.format(HUSH)}@bucket/w, and go on") == (
        "cannot read s3://bucket/w, and go on"
    )


@pytest.mark.parametrize(
    "text",
    [
        "abfss://container@account.dfs.core.windows.net/warehouse",
        "abfs://$root@account.dfs.core.windows.net",
        '{"site":"http://example.com","mail":"joe@example.com"}',
        "INSERT INTO t VALUES ('http://example.com','joe@example.com')",
        '{"asked":"why?","keys":"a=b"}',
    ],
)
def test_what_is_no_login_stays_in_the_text(text: str) -> None:
    error = PenstockError(text, hint=text, path=text)
    assert (error.message, error.hint, error.facts["path"]) == (text, text, text)


def test_a_hint_shows_no_login_of_a_url() -> None:
    assert PenstockError("it failed", hint=f"correct http://u:{HUSH}@h/").hint == "correct http://h/"
    assert PenstockError("it failed", hint="write mysql://user@host/").hint == "write mysql://user@host/"
    assert PenstockError("it failed", hint=f"correct http://user@home:{HUSH}@h/").hint == "correct http://h/"


@pytest.mark.parametrize("part", ["?", "?,", "?key", "&key", "://", "://a", "key"])
def test_a_long_text_is_searched_for_secrets_in_a_moment(part: str) -> None:
    began = time.process_time()
    without_login("?" + part * 40_000)
    assert time.process_time() - began < 5


class Answering(http.server.BaseHTTPRequestHandler):
    seen: list[tuple[int, str, str | None]]
    answer: bytes = b'{"schema": "\\"string\\""}'
    sends_to: str | None = None

    def do_GET(self) -> None:
        self.seen.append((self.server.server_address[1], self.path, self.headers.get("Authorization")))
        to = self.sends_to
        self.send_response(200 if to is None else 302)
        if to is not None:
            self.send_header("Location", to)
        self.end_headers()
        if to is None:
            self.wfile.write(self.answer)

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def serving(**settings: Any) -> Iterator[tuple[str, list[tuple[int, str, str | None]]]]:
    seen: list[tuple[int, str, str | None]] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Answering,), {"seen": seen, **settings}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()
        ended(thread)


@pytest.mark.slow
def test_the_login_in_a_registry_url_is_used_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as (host, seen):
        client = SchemaRegistry(f"http://user:{HUSH}@{host}/", sleep=lambda _: None)
        assert client.schema(7) == "string"
        assert seen[0][2]
    with pytest.raises(PenstockError) as refused:
        client.schema(8)
    assert HUSH not in repr(client) + str(refused.value) + caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["http", "file", "ftp"])
def test_redirects_of_a_registry_are_not_followed(scheme: str) -> None:
    with serving() as (other, stolen), serving(sends_to=f"{scheme}://{other}/steal") as (host, _):
        client = SchemaRegistry(f"http://{host}", user_info=f"user:{HUSH}", sleep=lambda _: None)
        with pytest.raises(PenstockError) as refused:
            client.schema(7)
    assert stolen == []
    assert HUSH not in str(refused.value)


@pytest.mark.slow
def test_an_endless_reply_of_a_registry_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "LARGEST_ANSWER", 1000)
    long = b'{"schema": "' + b"x" * 2000 + b'"}'
    with (
        serving(answer=long) as (host, _),
        pytest.raises(PenstockError, match="no schema registry can be reached") as refused,
    ):
        SchemaRegistry(f"http://{host}", sleep=lambda _: None).schema(7)
    assert "larger than" in str(refused.value)


@pytest.mark.parametrize(
    "webhook",
    [
        *(f"https://127.0.0.1:9/services/{HUSH} ", f"hooks.example/services/{HUSH}", f"https://127.0.0.1:9/x/{HUSH}\n"),
        *(f"file:///{HUSH}", f"http://127.0.0.1:9/{HUSH} x", f"http://u:{HUSH}@127.0.0.1:9/"),
        f"http://127.0.0.1:port/{HUSH}",
    ],
)
def test_the_address_of_a_webhook_is_in_no_log(
    webhook: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", webhook)
    caplog.set_level(logging.DEBUG)
    notifying = WebhookObserver("p", "${HOOK}", ["stopped"], at_most_every=0)
    notifying.ended(None)
    assert "notification_failed" in caplog.text
    assert HUSH not in caplog.text


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://b/w", {"s3.access-key": "AK", "s3.secret-key": HUSH, "s3.session.token": HUSH}),
        ("s3://b/w", {"object-store.aws_secret_access_key": HUSH}),
    ],
)
def test_a_store_shows_no_key(url: str, options: dict[str, str]) -> None:
    assert HUSH not in repr(open_storage(url, options))


WHOLE = """
pipeline: {name: p}
source:
  type: kafka
  topic: t
  value.format: debezium-avro
  properties:
    {bootstrap.servers: "127.0.0.1:1", security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: u,
     sasl.password: HUSH, socket.connection.setup.timeout.ms: "1000", metadata.max.age.ms: "1000"}
  schema-registry: {url: "http://user:HUSH@127.0.0.1:1"}
sink: {catalog: {warehouse: WAREHOUSE}, database: ods}
observe: {notify: {webhook: "http://127.0.0.1:1/HUSH"}}
"""
SERVER = """
source: {type: mysql, hostname: 127.0.0.1, port: 1, username: u, password: HUSH, tables: [shop.*]}
sink: {catalog: {warehouse: WAREHOUSE}, database: ods}
observe: {notify: {webhook: "HUSH"}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["check", "plan"])
@pytest.mark.parametrize("text", [WHOLE, SERVER], ids=["kafka", "mysql"])
def test_commands_that_read_a_pipeline_show_no_secret(
    command: str, text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text.replace("WAREHOUSE", str(tmp_path / "w")).replace("HUSH", HUSH))
    caplog.set_level(logging.DEBUG)
    assert main([command, str(file)]) != 0
    output = capfd.readouterr()
    assert output.out + output.err
    assert HUSH not in output.out + output.err + caplog.text


def test_a_client_that_refuses_its_properties_quotes_no_secret() -> None:
    with pytest.raises(ConfigError, match="rejects its properties") as refused:
        consumer({"bootstrap.servers": "h:1", "security.protocol": "SSL", "ssl.key.pem": HUSH})
    assert HUSH not in str(refused.value)


def test_brokers_are_verified_unless_disabled() -> None:
    made = client_properties({"bootstrap.servers": "h:1", "security.protocol": "SSL"})
    assert "enable.ssl.certificate.verification" not in made, "true is the client's own default"
    assert made.get("ssl.endpoint.identification.algorithm") in {None, "https"}
    off = client_properties({"bootstrap.servers": "h:1", "ssl.endpoint.identification.algorithm": ""})
    assert off["ssl.endpoint.identification.algorithm"] == "none"


@pytest.mark.slow
def test_nested_aliases_are_refused_quickly() -> None:
    lines = ["x0: &x0 [a,a,a,a,a,a,a,a,a]"]
    lines += [f"k{at}: &x{at} [{','.join([f'*x{at - 1}'] * 9)}]" for at in range(1, 9)]
    found = yaml_file.examine("\n".join([*lines, "source: {type: files, path: p}"]))
    assert isinstance(found, list)
    assert "values" in str(found[0])
    deep = yaml_file.examine("a: " + "[" * 5000 + "]" * 5000)
    assert isinstance(deep, list)
    assert json.dumps(str(deep[0]))
