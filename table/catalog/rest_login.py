"""The headers with which a client of a REST catalog proves who it is: a bearer token, or a signature of DLF."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_plus

from penstock.errors import ConfigError
from penstock.references import resolve
from penstock.storage.environment import Environment

PROVIDER = "token.provider"
TOKEN = "token"  # noqa: S105 -- the name of an option
LOGIN = (PROVIDER, TOKEN)
LOGIN_PREFIX = "dlf."
REGION, KEY_ID, SECRET = "dlf.region", "dlf.access-key-id", "dlf.access-key-secret"
SECURITY_TOKEN, KEYS_FILE, LOADER = "dlf.security-token", "dlf.token-path", "dlf.token-loader"
ALGORITHM = "dlf.signing-algorithm"
_DLF = {REGION, KEY_ID, SECRET, SECURITY_TOKEN, KEYS_FILE, LOADER, ALGORITHM}
_SIGNED = {
    "content-md5",
    "content-type",
    "x-dlf-content-sha256",
    "x-dlf-date",
    "x-dlf-version",
    "x-dlf-security-token",
}
_UNSIGNED_BODY = "UNSIGNED-PAYLOAD"
_SCOPE = "DlfNext/aliyun_v4_request"


@dataclass(frozen=True, slots=True)
class DlfKeys:
    """The keys of a user of DLF; temporary keys have a security token."""

    key_id: str
    secret: str
    security_token: str | None = None


def check_login(options: Mapping[str, str]) -> None:
    """Raise ConfigError if the options name no supported way to log in."""
    provider = _provider(options)
    if provider == "bear":
        if not options.get(TOKEN):
            hint = "token = ${CATALOG_TOKEN} reads an environment variable, ${file:/path} a file"
            raise ConfigError("a REST catalog needs a token", option=TOKEN, hint=hint)
        return
    if provider == "dlf":
        _check_dlf(options)
        return
    hint = "use bear, with the option token, or dlf, with dlf.access-key-id and dlf.access-key-secret"
    raise ConfigError(f"{PROVIDER} = {provider} is not supported", option=PROVIDER, hint=hint)


def _check_dlf(options: Mapping[str, str]) -> None:
    for key, only in ((ALGORITHM, "default"), (LOADER, "local_file")):
        if options.get(key, only) != only:
            raise ConfigError(f"{key} = {options[key]} is not supported", option=key, hint=f"only {only} is")
    unknown = sorted(key for key in options if key.startswith(LOGIN_PREFIX) and key not in _DLF)
    if unknown:
        raise ConfigError(f"{unknown[0]} is not supported", option=unknown[0], hint=", ".join(sorted(_DLF)))
    if not options.get(REGION):
        raise ConfigError("the signatures of DLF need a region", option=REGION, hint="for example cn-hangzhou")
    if not (options.get(KEYS_FILE) or (options.get(KEY_ID) and options.get(SECRET))):
        hint = f"set {KEY_ID} and {SECRET} as references such as ${{DLF_SECRET}}, or {KEYS_FILE} to a file of keys"
        raise ConfigError("the signatures of DLF need keys", option=KEY_ID, hint=hint)


def login_headers(
    options: Mapping[str, str],
    method: str,
    path: str,
    query: Mapping[str, str],
    data: bytes | None,
    environment: Environment,
) -> dict[str, str]:
    """Return the headers of one request. References to secrets are resolved now, so a renewed token is used."""
    if _provider(options) == "bear":
        return {"Authorization": f"Bearer {_one_line(resolve(options[TOKEN]), TOKEN)}"}
    keys = _dlf_keys(options)
    now = datetime.fromtimestamp(environment.now_millis() / 1000, UTC)
    headers = {
        "x-dlf-date": now.strftime("%Y%m%dT%H%M%SZ"),
        "x-dlf-content-sha256": _UNSIGNED_BODY,
        "x-dlf-version": "v1",
    }
    if data:
        digest = hashlib.md5(data, usedforsecurity=False).digest()
        headers |= {"Content-Type": "application/json", "Content-MD5": base64.b64encode(digest).decode()}
    if keys.security_token:
        headers["x-dlf-security-token"] = _one_line(keys.security_token, SECURITY_TOKEN)
    _one_line(keys.key_id, KEY_ID)
    return {**headers, "Authorization": dlf_authorization(keys, options[REGION], method, path, query, headers)}


def dlf_authorization(
    keys: DlfKeys, region: str, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> str:
    """Return the signature of a request by the algorithm DLF4-HMAC-SHA256, as Java Paimon 1.3 makes it."""
    lower = {name.lower(): text.strip() for name, text in headers.items()}
    # Values are encoded as in the address; a parameter without a value is its name.
    given = sorted((name.strip(), quote_plus(text, safe="*").strip()) for name, text in query.items())
    parameters = "&".join(f"{name}={text}" if text else name for name, text in given)
    signed = [f"{name}:{lower[name]}" for name in sorted(_SIGNED & lower.keys())]
    request = "\n".join([method, path, parameters, *signed, _UNSIGNED_BODY])
    time = lower["x-dlf-date"]
    scope = f"{time[:8]}/{region}/{_SCOPE}"
    text = "\n".join(["DLF4-HMAC-SHA256", time, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"aliyun_v4{keys.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    return f"DLF4-HMAC-SHA256 Credential={keys.key_id}/{scope},Signature={signature}"


def _dlf_keys(options: Mapping[str, str]) -> DlfKeys:
    path = options.get(KEYS_FILE)
    if not path:
        token = options.get(SECURITY_TOKEN)
        return DlfKeys(resolve(options[KEY_ID]), resolve(options[SECRET]), token and resolve(token))
    # The file is read for each request, because another process renews the keys in it.
    try:
        found: Any = json.loads(resolve(f"${{file:{path}}}"))
        return DlfKeys(found["accessKeyId"], found["accessKeySecret"], found.get("securityToken"))
    except (ValueError, KeyError, TypeError) as error:
        hint = "a JSON object with accessKeyId, accessKeySecret and, for temporary keys, securityToken"
        raise ConfigError("a file with keys of DLF cannot be read", option=KEYS_FILE, file=path, hint=hint) from error


def _one_line(secret: str, option: str) -> str:
    """Return a secret for a header. Python's client would quote one that no header can contain in its error."""
    if not (secret.isascii() and secret.isprintable()):
        hint = "it is one line of ASCII: check the environment variable or file for line breaks and other characters"
        raise ConfigError("a login of the REST catalog cannot be sent in a header of HTTP", option=option, hint=hint)
    return secret


def _provider(options: Mapping[str, str]) -> str:
    return options.get(PROVIDER, "bear" if options.get(TOKEN) else "").strip().lower()
