"""Kafka clients from the properties users know: names of the Java client, translated for librdkafka."""

from __future__ import annotations

import logging
import re
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from penstock.errors import ConfigError, SourceError
from penstock.ingest.patience import patience_seconds
from penstock.references import masked, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_T = TypeVar("_T")
log = logging.getLogger(__name__)
of_clients = logging.getLogger("penstock.kafka")  # librdkafka's own log lines


REQUEST_SECONDS = 20.0
PATIENCE_SECONDS = 120.0  # a broker that restarts is back by then
REACH_SECONDS = 8.0  # for the first connection of a new pipeline, all brokers together
UNKNOWN_SECONDS = 5.0  # a broker that just started, or a topic just created, is known by then

# Properties that Penstock sets or that concern only the Java client: logged, then left out.
_LEFT_OUT = re.compile(
    r"(key|value)\.deserializer|enable\.auto\.(commit|offset\.store)|auto\.(offset\.reset|commit\.interval\.ms)|"
    r"max\.poll\.records|partition\.assignment\.strategy|interceptor\.classes|metric.*|default\.api\.timeout\.ms|"
    r"request\.timeout\.ms|receive\.buffer\.bytes|send\.buffer\.bytes|exclude\.internal\.topics|group\.protocol|"
    r"sasl\.(login|client)\..*|ssl\.(trustmanager|keymanager|secure\.random|provider|protocol|enabled).*|"
    r"flink\..*|scan\..*|partition\.discovery\.interval\.ms|client\.id\.prefix|commit\.offsets\.on\.checkpoint"
)
_JAVA_NAMES = {"fetch.max.wait.ms": "fetch.wait.max.ms", "max.partition.fetch.bytes": "fetch.message.max.bytes"}
_PLACES = {"ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type", "ssl.truststore.certificates"}
_KEYS = {
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "sasl.jaas.config",
}
_JKS = bytes.fromhex("feedfeed")

_READING = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    # Records fetched beyond the end of a range are thrown away, so the queue is small but must never run dry. With the
    # default pause of a second after the queue was full, a task waits longer than it works (measured).
    "queued.max.messages.kbytes": "16384",
    "fetch.queue.backoff.ms": "5",
    "fetch.message.max.bytes": "4194304",
    "fetch.wait.max.ms": "10",
    "socket.keepalive.enable": "true",
    "reconnect.backoff.max.ms": "2000",
}

# A connection that has fallen silent is given up when its first request times out.
_ASKING = {"socket.timeout.ms": f"{REQUEST_SECONDS * 1000:.0f}", "socket.keepalive.enable": "true"}


class Seldom(logging.Filter):
    """Pass the same message only twice a minute: a client that looks for its broker logs many times per second."""

    def __init__(self, seconds: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds, self._clock = seconds, clock
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        words, now = re.sub(r"\d+(?=ms\b)|(?<=producer-)\d+|(?<=consumer-)\d+", "", record.getMessage()), self._clock()
        if now - self._said.get(words, -self._seconds) < self._seconds:
            return False
        if len(self._said) > 1000:
            self._said.clear()
        self._said[words] = now
        return True


# `FAIL [rdkafka#producer-1] [thrd:kafka:9092/bootstrap]: kafka:9092/bootstrap: what happened (after 0ms in state ...)`
_CLIENT_LINE = re.compile(
    r"(?P<kind>[A-Z_]+) \[rdkafka#[^\]]*\] (\[thrd:[^\]]*\]: )?((?P<broker>\S+:\d+)/\S+: )?"
    r"(?P<said>.*?)(\s*\(after .*\))?",
    re.DOTALL,
)


class EventLine(logging.Filter):
    """Rewrite a log line of librdkafka as `event=kafka_client ...`, the form of all log lines of Penstock."""

    def filter(self, record: logging.LogRecord) -> bool:
        found = _CLIENT_LINE.fullmatch(record.getMessage())
        if found:
            broker = f" broker={found['broker']}" if found["broker"] else ""
            record.msg = f"event=kafka_client kind={found['kind'].lower()}{broker} reason={found['said'].strip()}"
            record.args = ()
            # The client keeps trying. An error that ends a run is raised separately.
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


of_clients.addFilter(Seldom())
of_clients.addFilter(EventLine())


def check_reachable(properties: Mapping[str, str], *, seconds: float = REACH_SECONDS) -> None:
    """Raise a SourceError if no broker of bootstrap.servers accepts a TCP connection.

    `patiently` retries for two minutes, which is right for a broker that restarts. A new pipeline has never
    connected to its broker, so a wrong address is the likelier reason.
    """
    servers = resolve(properties.get("bootstrap.servers", ""))
    addresses = [_address(one) for one in servers.split(",") if one.strip()]
    failures: dict[str, Exception] = {}
    give_up = time.monotonic() + seconds
    for number, (host, port) in enumerate(addresses):
        left = max(give_up - time.monotonic(), 0.1) / (len(addresses) - number)
        try:
            socket.create_connection((host, port), timeout=left).close()
        except (OSError, UnicodeError, OverflowError) as error:
            failures[f"{host}:{port}"] = error
        else:
            return
    if failures:
        raise SourceError(
            "no Kafka broker can be reached",
            brokers=servers,
            reason="; ".join(f"{place}: {_reason(error)}" for place, error in failures.items()),
            hint="correct bootstrap.servers, start the broker, or open the firewall between this machine and it",
            retryable=True,
        )


def _address(server: str) -> tuple[str, int]:
    """Return host and port of one entry, which may begin with a protocol: `SASL_SSL://db:9093`, `[::1]:9092`."""
    found = re.fullmatch(r"(?:[^/]*//)?(?P<host>\[[^\]]+\]|[^:/]+)(?::(?P<port>\d+))?", server.strip())
    if not found:
        raise ConfigError(
            f"{server.strip()!r} in bootstrap.servers is not an address", hint="write host:port, for example kafka:9092"
        )
    return found["host"].strip("[]"), int(found["port"] or 9092)


def _reason(error: Exception) -> str:
    """Return the failure without Python's error number."""
    if isinstance(error, TimeoutError):
        return "no answer"
    return str(getattr(error, "strerror", None) or error)


def consumer(properties: Mapping[str, str]) -> Consumer:
    """Return a consumer for explicit assignment: it joins no group and never commits by itself."""
    settings = {"group.id": "penstock"} | client_properties(properties) | _READING
    if "isolation.level" in properties:
        settings["isolation.level"] = properties["isolation.level"]
    return _made(Consumer, settings)


def admin(properties: Mapping[str, str], heard: Callable[[KafkaError], None] | None = None) -> AdminClient:
    """Return an admin client; `heard` is called, when the client is polled, with errors outside its answers."""
    # A client that does not consume only warns about a consumer's properties.
    skip = ("group.", "fetch.", "session.", "heartbeat.", "max.poll.", "queued.", "isolation.")
    given = {name: value for name, value in client_properties(properties).items() if not name.startswith(skip)}
    settings: dict[str, object] = {**_ASKING, **given}
    if heard is not None:
        settings["error_cb"] = heard
    return _made(AdminClient, settings)


def _made(kind: Callable[..., _T], settings: Mapping[str, object]) -> _T:
    try:
        return kind(dict(settings), logger=of_clients)
    except KafkaException as error:
        said = str(error.args[0].str())
        for name, value in settings.items():
            if isinstance(value, str) and value and masked(name, value) != value:
                said = said.replace(value, "***")
        raise ConfigError(
            f"the Kafka client rejects its properties: {said}",
            hint="set them as  properties.<name>=<value>  with the property names of the Java client or of librdkafka",
        ) from error


def client_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's properties for those of a Java client, with references to secrets resolved."""
    given = {name.strip(): resolve(value) for name, value in properties.items()}
    made: dict[str, str] = {}
    for name, value in given.items():
        if name in _PLACES | _KEYS:
            continue
        if _LEFT_OUT.fullmatch(name):
            log.debug("event=kafka_property_left_out name=%s", name)
        elif name == "ssl.endpoint.identification.algorithm":
            made[name] = value or "none"
        else:
            made[_JAVA_NAMES.get(name, name)] = value
    made |= _login(given.get("sasl.jaas.config", "")) | trusted(given) | _own_certificate(given)
    return made


def _login(jaas: str) -> dict[str, str]:
    words = dict(re.findall(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"', jaas))
    if "Krb5LoginModule" in jaas:
        names = {"keyTab": "sasl.kerberos.keytab", "principal": "sasl.kerberos.principal"}
    elif "OAuthBearerLoginModule" in jaas:
        names = {
            "clientId": "sasl.oauthbearer.client.id",
            "clientSecret": "sasl.oauthbearer.client.secret",
            "scope": "sasl.oauthbearer.scope",
        }
    else:
        names = {"username": "sasl.username", "password": "sasl.password"}
    made = {names[word]: text.replace('\\"', '"') for word, text in words.items() if word in names}
    return made | ({"sasl.oauthbearer.method": "oidc"} if "OAuthBearerLoginModule" in jaas else {})


def trusted(given: Mapping[str, str]) -> dict[str, str]:
    """Return the certificates in a Java trust store as `ssl.ca.pem` or `ssl.ca.location`."""
    if certificates := given.get("ssl.truststore.certificates"):
        return {"ssl.ca.pem": certificates}
    location = given.get("ssl.truststore.location")
    if location is None:
        return {}
    raw = _file(location)
    if given.get("ssl.truststore.type", "").upper() == "PEM" or b"-----BEGIN" in raw:
        return {"ssl.ca.location": location}
    try:
        store = pkcs12.load_pkcs12(raw, given.get("ssl.truststore.password", "").encode() or None)
    except ValueError as error:
        raise _needs_pkcs12("truststore", location) from error
    return {"ssl.ca.pem": "".join(c.certificate.public_bytes(Encoding.PEM).decode() for c in store.additional_certs)}


def _own_certificate(given: Mapping[str, str]) -> dict[str, str]:
    location = given.get("ssl.keystore.location")
    is_pem = given.get("ssl.keystore.type", "").upper() == "PEM"
    if location is not None and is_pem:  # one file with both certificate and key, as in the Java client
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    if location is not None:
        if _file(location).startswith(_JKS):
            raise _needs_pkcs12("keystore", location)
        return {"ssl.keystore.location": location}
    if not is_pem:
        return {}
    names = {"ssl.keystore.certificate.chain": "ssl.certificate.pem", "ssl.keystore.key": "ssl.key.pem"}
    return {names[name]: given[name] for name in names if name in given}


def _file(location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise ConfigError("a certificate file cannot be read", file=location) from error


def _needs_pkcs12(kind: str, location: str) -> ConfigError:
    return ConfigError(
        f"the {kind} is neither PEM nor a PKCS12 file that its password can open",
        file=location,
        hint=f"keytool -importkeystore -srckeystore {location} -destkeystore {kind}.p12 -deststoretype PKCS12",
    )


_PASSING = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError._WAIT_COORD,
    KafkaError._UNKNOWN_BROKER,
    KafkaError._NOENT,  # no partition has a leader: the only broker has just started
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.LISTENER_NOT_FOUND,
}
# A topic just created, or a broker just started, may be unknown for a moment.
_UNKNOWN_YET = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}


def is_passing(error: KafkaError) -> bool:
    """Return whether a broker answers this while it restarts or hands over, so that a retry helps."""
    return bool(error.code() in _PASSING or error.retriable())


# A client reports a broker that goes away in the middle of a handshake with the same codes as a refusal.
_OF_THE_NETWORK = re.compile("transport|disconnect|timed out|connection", re.IGNORECASE)


def is_refusal(error: KafkaError) -> bool:
    """Return whether credentials or certificates are wrong, which waiting cannot repair."""
    kinds = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED}
    return error.code() in kinds and not _OF_THE_NETWORK.search(_said(error))


def refused(error: KafkaError) -> SourceError:
    """Return the error for wrong credentials or certificates, with a hint at the settings to check."""
    return SourceError(
        f"Kafka rejected the connection, or its certificate is not trusted: {_said(error)}",
        code=error.name(),
        hint="check properties.sasl.* and properties.ssl.*, and that the listener uses this security.protocol",
    )


def _said(error: KafkaError) -> str:
    """Return the error text without the appended state of the connection."""
    return re.sub(r"\s*\(after [^)]*\)$", "", error.str())


def is_unknown_topic(error: KafkaError) -> bool:
    """Return whether the broker does not know the topic or partition, perhaps only for a moment."""
    return error.code() in _UNKNOWN_YET


def patiently(
    ask: Callable[[], _T],
    *,
    seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> _T:
    """Return the answer of `ask`, retried with growing pauses while the broker is unreachable.

    SourceError if the broker stays away. An unknown topic is retried for a few seconds only: usually it does not exist.
    """
    seconds = patience_seconds(PATIENCE_SECONDS) if seconds is None else seconds
    began, pause = clock(), 0.2
    while True:
        try:
            return ask()
        except KafkaException as thrown:
            error: KafkaError = thrown.args[0]
            allowed = seconds if is_passing(error) else UNKNOWN_SECONDS if is_unknown_topic(error) else 0.0
            if clock() + pause > began + allowed:
                raise broker_error(error) from thrown
            if pause == 0.2:
                log.warning("event=waiting_for_kafka at_most_seconds=%g reason=%s", allowed, error.str())
        sleep(pause)
        pause = min(pause * 2, 5.0)


_AWAY = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}
_UNREACHABLE = (
    "check that a broker is running, that bootstrap.servers is correct, and that no firewall blocks the connection"
)


def broker_error(
    error: KafkaError, *, topic: str | None = None, partition: int | None = None, offset: int | None = None
) -> SourceError:
    """Return a client error as a SourceError, which says whether a retry can help."""
    return SourceError(
        f"Kafka: {error.str()}",
        code=error.name(),
        topic=topic,
        partition=partition,
        offset=offset,
        retryable=is_passing(error),
        hint=_UNREACHABLE if error.code() in _AWAY else None,
    )
