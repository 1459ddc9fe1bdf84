"""Pulsar's admin interface over HTTP: names of topics, and conditions that only it knows."""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import quote, quote_plus
from urllib.request import Request

from penstock.errors import ConfigError, SourceError
from penstock.http_opener import limited_opener
from penstock.ingest.pulsar.option_names import ADMIN_URL, AUTH_PARAMS, CERTIFICATE, CHECKS_HOST, INSECURE, KEY, TRUSTED
from penstock.ingest.pulsar.properties import credentials, token
from penstock.ingest.pulsar.topics import Place, namespace_of, partition_name, place_of
from penstock.json_answers import (
    CONNECTION_ERRORS,
    WrongAnswer,
    answer_bytes,
    expected,
    expected_names,
    member,
    parsed_answer,
)
from penstock.references import resolve

_TIMEOUT = 10.0
_MOST_SECONDS = 60.0
NOTHING = (-1, -1)  # no entry

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SubscriptionState:
    """The state of a subscription of a partition, as a broker keeps it.

    `ledgers` are the ledgers of the partition with their numbers of entries, and `last` is its newest entry. The
    position `acknowledged`, and all before it, need not be kept; its entry is -1 as long as nothing was acknowledged.
    """

    exists: bool
    acknowledged: tuple[int, int]
    ledgers: Mapping[int, int]
    last: tuple[int, int]


class PulsarAdmin:
    """Read-only requests to the admin interface."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._given = {name: resolve(value) for name, value in properties.items()}
        self._url = self._given[ADMIN_URL].rstrip("/")

    def topics_matching(self, pattern: str) -> list[str]:
        """Return the full names that the pattern matches as a whole; a topic with partitions counts as one."""
        namespace, whole = namespace_of(pattern)
        matches = re.compile(whole).fullmatch
        found = {place_of(name)[0] for name in self._get(f"persistent/{namespace}", _names) or ()}
        found |= set(self._get(f"persistent/{namespace}/partitioned", _names) or ())
        internal = re.compile(r".*/__[^/]*")
        return sorted(name for name in found if matches(name) and not internal.fullmatch(name))

    def exists(self, place: Place) -> bool:
        return self._get(f"{_path(partition_name(place))}/stats", _object) is not None

    def consumers(self, place: Place, subscription: str) -> list[str] | None:
        """Return the names of the consumers of a subscription, None if the partition does not exist."""
        return self._get(f"{_path(partition_name(place))}/stats", lambda found: _consumers(found, subscription))

    def ledgers(self, place: Place) -> list[tuple[int, int]]:
        """Return the ledgers of a partition with the number of their entries."""
        return self._get(f"{_path(partition_name(place))}/internalStats", _ledgers) or []

    def subscription(self, place: Place, name: str) -> SubscriptionState:
        """Return the state of a subscription. It does not exist if the partition does not."""
        path = _path(partition_name(place))
        exists = self._get(f"{path}/stats", lambda found: name in _subscriptions(found)) or False
        state = self._get(f"{path}/internalStats", lambda found: _state(found, name, exists=exists))
        return state or SubscriptionState(exists=False, acknowledged=NOTHING, ledgers={}, last=NOTHING)

    def message_ttl(self, topic: str) -> int | None:
        """Return the seconds after which the namespace acknowledges messages by itself, None if it does not."""
        tenant, namespace, _ = topic.partition("://")[2].split("/", 2)
        return (
            self._get(f"namespaces/{tenant}/{namespace}/messageTTL", lambda found: expected(found, int, "it")) or None
        )

    def schema_type(self, topic: str) -> str | None:
        """Return the type of the newest schema of a topic, None without a schema."""
        return self._get(
            f"schemas/{topic.partition('://')[2]}/schema", lambda found: member(_object(found), "type", str)
        )

    def _get(self, path: str, read: Callable[[Any], T]) -> T | None:
        """Return the result of `read` for the answer, None if the object of the path does not exist."""
        request = Request(f"{self._url}/admin/v2/{path}", headers=self._headers())  # noqa: S310  the user's own URL
        try:
            opener = limited_opener(context=self._tls(), seconds=_MOST_SECONDS)
            with opener.open(request, timeout=_TIMEOUT) as answer:
                found = parsed_answer(answer_bytes(answer) or b"null")
                return None if found is None else read(found)
        except HTTPError as error:
            if error.code == 404:
                return None
            refused = error.code in {401, 403}
            raise SourceError(
                f"Pulsar's admin interface answers {error.code} {error.reason}",
                url=f"{self._url}/admin/v2/{path}",
                retryable=error.code >= 500,
                hint="check pulsar.client.authParams, and the role's permissions in the namespace" if refused else None,
            ) from error
        except WrongAnswer as error:
            raise SourceError(
                f"Pulsar's admin interface returned an answer of an unexpected form: {error}",
                url=f"{self._url}/admin/v2/{path}",
                hint="check that pulsar.admin.adminUrl is the address of Pulsar's admin interface",
            ) from error
        except CONNECTION_ERRORS as error:
            raise SourceError(
                "Pulsar's admin interface does not answer",
                url=self._url,
                reason=getattr(error, "reason", None) or error,
                retryable=True,
                hint="check pulsar.admin.adminUrl",
            ) from error

    def _headers(self) -> dict[str, str]:
        found = credentials(self._given)
        if found is None:
            return {}
        kind, parameters = found
        if kind == "token":
            given = token(parameters)
            # Python's client would quote the token in its error.
            if not (given.isascii() and given.isprintable()):
                hint = "it is one line of ASCII: check the environment variable or file for line breaks"
                raise ConfigError("the token cannot be sent in a header of HTTP", option=AUTH_PARAMS, hint=hint)
            return {"Authorization": f"Bearer {given}"}
        if kind == "basic":
            login = f"{parameters.get('userId')}:{parameters.get('password')}".encode()
            return {"Authorization": f"Basic {base64.b64encode(login).decode()}"}
        return {}

    def _tls(self) -> ssl.SSLContext | None:
        if not self._url.startswith("https:"):
            return None
        given = self._given
        try:
            context = ssl.create_default_context(cafile=given.get(TRUSTED))
            kind, parameters = credentials(given) or ("", {})
            certificate = parameters.get("tlsCertFile") if kind == "tls" else given.get(CERTIFICATE)
            if certificate:
                context.load_cert_chain(certificate, parameters.get("tlsKeyFile") or given.get(KEY))
        except OSError as error:
            raise ConfigError(
                "a certificate file cannot be read",
                files=given.get(TRUSTED),
                reason=error,
                hint="the file must exist, and be readable, on the machine of the driver",
            ) from error
        if given.get(CHECKS_HOST, "false").lower() != "true":
            context.check_hostname = False  # the client of the service URL does not check it by default either
        if given.get(INSECURE, "false").lower() == "true":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _path(name: str) -> str:
    domain, _, rest = name.partition("://")
    return f"{domain}/{quote(rest)}"


def _names(answer: object) -> list[str]:
    return expected_names(answer, "the list of topics")


def _object(answer: object) -> dict[str, Any]:
    return expected(answer, dict, "it")


def _subscriptions(answer: object) -> dict[str, Any]:
    return expected(_object(answer).get("subscriptions", {}), dict, "subscriptions")


def _consumers(answer: object, subscription: str) -> list[str]:
    facts = expected(_subscriptions(answer).get(subscription, {}), dict, f"the subscription {subscription}")
    consumers = expected(facts.get("consumers", []), list, "consumers")
    return [str(expected(consumer, dict, "an entry of consumers").get("consumerName")) for consumer in consumers]


def _ledgers(answer: object) -> list[tuple[int, int]]:
    stats = _object(answer)
    given = [
        expected(node, dict, "an entry of ledgers") for node in expected(stats.get("ledgers", []), list, "ledgers")
    ]
    ledgers = [(member(node, "ledgerId", int), member(node, "entries", int)) for node in given]
    # The newest ledger is still written: its entries are counted separately.
    if ledgers:
        current = expected(stats.get("currentLedgerEntries", 0), int, "currentLedgerEntries")
        ledgers[-1] = (ledgers[-1][0], max(ledgers[-1][1], current))
    return ledgers


def _state(answer: object, subscription: str, *, exists: bool) -> SubscriptionState:
    cursors = expected(_object(answer).get("cursors", {}), dict, "cursors")
    # Brokers name a cursor by Java's form of the name in a URL.
    cursor = cursors.get(subscription, cursors.get(quote_plus(subscription, safe="*").replace("~", "%7E"), {}))
    acknowledged = _entry(expected(cursor, dict, "a cursor").get("markDeletePosition"))
    return SubscriptionState(
        exists, acknowledged, dict(_ledgers(answer)), _entry(_object(answer).get("lastConfirmedEntry"))
    )


def _entry(text: object) -> tuple[int, int]:
    if text is None:
        return NOTHING
    match = re.fullmatch(r"(-?\d{1,19}):(-?\d{1,19})", expected(text, str, "a position"))
    if match is None:
        raise WrongAnswer(f"a position should be ledger:entry, and is {text!r:.80}")
    return int(match[1]), int(match[2])
