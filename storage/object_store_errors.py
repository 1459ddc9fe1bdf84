"""Errors of an object store's client as short sentences: the action, the path, the answer of the store, the remedy.

The client's own text ends in a dump of its internals. If credentials are missing, it only says that some address of a
cloud machine did not answer. It stays the cause of the error, for tracebacks.
"""

from __future__ import annotations

import re

from obstore import exceptions

from penstock.errors import PenstockError, StoreError

# The addresses where machines of a cloud ask for the credentials of their role. The client asks there if it has no
# credentials.
_OWN_ROLE = re.compile(r"://(?:169\.254\.\d+\.\d+|metadata(?:\.google\.internal)?)[:/]")
_STATUS = re.compile(r"status code: (?P<status>\d{3})(?: (?P<reason>[A-Z][A-Za-z -]*))?")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_RETRIES = re.compile(r"after (\d+) retries")
_ADDRESS = re.compile(r"(https?://[^/\s]+)")

CREDENTIALS = {
    "s3": "set s3.access-key and s3.secret-key (--catalog-conf, or catalog: options:), or AWS_ACCESS_KEY_ID and"
    " AWS_SECRET_ACCESS_KEY in the environment",
    "gs": "set fs.gs.auth.service.account.json.keyfile to a key file, or"
    " GOOGLE_APPLICATION_CREDENTIALS in the environment",
    "abfs": "set fs.azure.account.key, or AZURE_STORAGE_ACCOUNT_KEY in the environment",
}
_ENDPOINTS = {"s3": "s3.endpoint", "gs": "object-store.base_url", "abfs": "object-store.endpoint"}
_RIGHTS = "allow these credentials to read, write, list and delete below that path"
_REGION = "set s3.region to the region of the bucket"
_ACCESS_KEY = "correct the access key: it does not exist in the store"
_AZURE_KEY = (
    "correct fs.azure.account.key or the shared access signature, which may have expired or lack rights to read, write,"
    " list and delete; check that the account's firewall admits this machine"
)
_CURES = {
    "SignatureDoesNotMatch": "correct the secret key; check that s3.endpoint and s3.path.style.access fit the store",
    "InvalidAccessKeyId": _ACCESS_KEY,
    "XAdminUserNotFound": _ACCESS_KEY,
    "ExpiredToken": "get new credentials: the session token has expired",
    "RequestTimeTooSkewed": "set the clock of this machine",
    "AuthenticationFailed": _AZURE_KEY,
    "AuthorizationFailure": _AZURE_KEY,
    "NoSuchBucket": "create the bucket, or correct its name in the URL",
    "ContainerNotFound": "create the container, or correct its name in the URL",
    "AuthorizationHeaderMalformed": _REGION,
    "PermanentRedirect": _REGION,
}
# Versity's gateway answers the last one, with 404, to an unknown access key.
_LASTING = {"NoSuchBucket", "ContainerNotFound", "XAdminUserNotFound"}


# It is a PermissionError, because store_error treats those as lasting: the request is not retried.
class StoreRefused(PenstockError, PermissionError):
    """The object store refuses the request for good: credentials, rights, or a bucket that does not exist."""

    exit_code = 12


def explained(error: Exception, kind: str, operation: str, url: str) -> PenstockError:
    """Return the error to raise instead of the client's: StoreRefused if a retry cannot help."""
    # The first line is the message. The XML with the store's error code is in the dump behind it.
    text = str(error).partition("\n")[0]
    whole = str(error)
    if "Account must be specified" in text:
        return StoreRefused(
            f"cannot {operation} {url}: the URL names no storage account",
            hint="write abfss://container@account.dfs.core.windows.net/path",
        )
    # Checked before the status, because a status in this text comes from the cloud's metadata service, not from the
    # store.
    if _OWN_ROLE.search(text):
        return _without_credentials(text, kind, operation, url)
    if "BareRedirect" in whole or "redirect without LOCATION" in text:
        return StoreRefused(f"cannot {operation} {url}: the bucket is in another region", hint=_REGION)
    found, codes = _STATUS.search(text), _CODE.findall(whole)
    if found is None:
        return _without_answer(text, whole, kind, operation, url)
    status, code = int(found["status"]), codes[0] if codes else (found["reason"] or "").strip()
    answer = f"the store answered {status} {code}".rstrip() + _tries(text)
    refused = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError)
    if refused or status in {401, 403} or code in _LASTING:
        hint = _CURES.get(code, CREDENTIALS[kind] if status == 401 else _RIGHTS)
        return StoreRefused(f"cannot {operation} {url}: {answer}", hint=hint)
    return StoreError(f"cannot {operation} {url}: {answer}", hint=_CURES.get(code))


def is_bucket_missing(error: Exception) -> bool:
    """Return whether a "not found" is about the bucket or the user, not about one object."""
    return any(code in _LASTING for code in _CODE.findall(str(error)))


def _without_credentials(text: str, kind: str, operation: str, url: str) -> PenstockError:
    """Return the error of a client without credentials.

    Unless the cloud refused them, a retry may help: the role of a new machine is assigned late.
    """
    found = _STATUS.search(text)
    message = f"cannot {operation} {url}: there are no credentials for the store"
    reason = "none are configured, and this machine has no role that provides credentials"
    if found and found["status"].startswith("4"):
        return StoreRefused(message, reason=reason, hint=CREDENTIALS[kind])
    return StoreError(message, reason=reason, hint=CREDENTIALS[kind])


def _without_answer(text: str, whole: str, kind: str, operation: str, url: str) -> PenstockError:
    """Return the error of a request without an answer: a failed connection, or an error in the client itself."""
    address = _ADDRESS.search(text)
    if "HTTP error" not in text or address is None:
        return StoreError(
            f"cannot {operation} {url}: {text}",
            hint="compare the store's options;  pipeline: {on-error: {retries: N}}  tries again",
        )
    why = "its name has no address" if "dns error" in whole else "it cannot be reached"
    return StoreError(
        f"cannot {operation} {url}: no answer from {address[1]}{_tries(text)}",
        reason=why,
        hint=f"check the endpoint ({_ENDPOINTS[kind]}), the network and the firewall",
    )


def _tries(text: str) -> str:
    """Return how often the client tried, as the end of a sentence; empty after a single try."""
    found = _RETRIES.search(text)
    return f" in {int(found[1]) + 1} tries" if found and int(found[1]) else ""
