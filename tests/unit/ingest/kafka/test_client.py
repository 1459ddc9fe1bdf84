from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.errors import ConfigError, SourceError
from penstock.ingest.kafka import client
from penstock.ingest.kafka.broker_errors import patiently
from penstock.ingest.kafka.properties import client_properties
from penstock.pipelines.tasks.shuffle_rows import LARGEST_ROW
from penstock.references import resolve


def test_plain_login_of_jaas_becomes_user_and_password() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p=\\"x";'
    assert client_properties({"sasl.jaas.config": jaas}) == {"sasl.username": "u", "sasl.password": 'p="x'}


def test_kerberos_login_of_jaas_becomes_keytab_and_principal() -> None:
    jaas = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="me@X";'
    made = client_properties({"sasl.jaas.config": jaas})
    assert made == {"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "me@X"}


def test_secrets_are_resolved_where_the_client_is_created(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAFKA_USER", "anna")
    (tmp_path / "password").write_text("geheim\n")
    jaas = f'PlainLoginModule required username="${{KAFKA_USER}}" password="${{file:{tmp_path}/password}}";'
    assert client_properties({"sasl.jaas.config": jaas}) == {"sasl.username": "anna", "sasl.password": "geheim"}


def test_a_reference_to_nothing_is_an_error_unless_it_has_a_default() -> None:
    assert resolve("x${PENSTOCK_NO_SUCH_NAME:-y}") == "xy"
    with pytest.raises(ConfigError, match="PENSTOCK_NO_SUCH_NAME"):
        resolve("${PENSTOCK_NO_SUCH_NAME}")


def test_java_property_names_are_translated_and_jvm_properties_omitted() -> None:
    given = {
        "bootstrap.servers": "k:9092",
        "max.poll.records": "5",
        "key.deserializer": "x",
        "fetch.max.wait.ms": "7",
        "ssl.endpoint.identification.algorithm": "",
    }
    assert client_properties(given) == {
        "bootstrap.servers": "k:9092",
        "fetch.wait.max.ms": "7",
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_a_record_as_large_as_a_row_may_be_is_received(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, str]] = []
    monkeypatch.setattr(client, "Consumer", lambda settings, **_: made.append(settings))
    client.consumer({})
    client.consumer({"receive.message.max.bytes": "7"})
    assert int(made[0]["receive.message.max.bytes"]) > LARGEST_ROW
    assert made[1]["receive.message.max.bytes"] == "7"


@pytest.mark.parametrize("most", ["60000000", "1500000000", "2147483135"])
def test_a_limit_for_answers_may_be_as_large_as_the_client_allows(most: str) -> None:
    client.consumer({"bootstrap.servers": "127.0.0.1:1", "fetch.max.bytes": most}).close()


def test_a_java_keystore_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(bytes.fromhex("feedfeed0000000200000000"))
    with pytest.raises(ConfigError, match="keytool -importkeystore"):
        client_properties({"ssl.truststore.location": str(store), "ssl.truststore.password": "x"})


def test_a_pem_truststore_is_used_unchanged(tmp_path: Path) -> None:
    store = tmp_path / "ca.pem"
    store.write_bytes(b"-----BEGIN CERTIFICATE-----\n")
    assert client_properties({"ssl.truststore.location": str(store)}) == {"ssl.ca.location": str(store)}


class Answers:
    """Raises each error in turn, then answers; its clock moves by what is slept."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.now = 0.0

    def ask(self) -> str:
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return "answer"

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self) -> str:
        return patiently(self.ask, clock=lambda: self.now, sleep=self.sleep)


def test_a_connection_waits_for_a_broker_that_recovers() -> None:
    assert Answers(*[KafkaError._TRANSPORT] * 10, KafkaError.NOT_LEADER_FOR_PARTITION).wait() == "answer"


def test_a_broker_that_does_not_recover_is_a_retryable_error() -> None:
    answers = Answers(*[KafkaError._TRANSPORT] * 1000)
    with pytest.raises(SourceError) as caught:
        answers.wait()
    assert caught.value.retryable
    assert 100 < answers.now <= 120


def test_the_wait_for_an_unknown_topic_is_short() -> None:
    answers = Answers(*[KafkaError.UNKNOWN_TOPIC_OR_PART] * 1000)
    with pytest.raises(SourceError):
        answers.wait()
    assert answers.now < 6


def test_a_refusal_is_not_retried() -> None:
    answers = Answers(KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._TRANSPORT)
    with pytest.raises(SourceError) as caught:
        answers.wait()
    assert not caught.value.retryable
    assert answers.now == 0


def test_checksums_of_records_are_checked_unless_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, str]] = []
    monkeypatch.setattr(client, "Consumer", lambda settings, **_: made.append(settings))
    client.consumer({})
    client.consumer({"check.crcs": "false"})
    assert [settings["check.crcs"] for settings in made] == ["true", "false"]
