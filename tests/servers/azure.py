"""Signatures of Azure's accounts, and containers in Azurite: its storage client can do neither."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
import urllib.parse
import urllib.request

ACCOUNT = "devstoreaccount1"
# The published key of the emulator's account; base64 of 64 bytes as every key of an account.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_VERSION = "2022-11-02"


def signature(rights: str = "rwdlac", *, seconds: int = 3600) -> str:
    """Return a shared access signature of the account, as the query of a URL. A negative duration is an expired one."""
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    signed = "\n".join([ACCOUNT, rights, "b", "sco", "", until, "", "", _VERSION, "", ""])
    digest = hmac.digest(base64.b64decode(KEY), signed.encode(), hashlib.sha256)
    words = {"sv": _VERSION, "ss": "b", "srt": "sco", "sp": rights, "se": until}
    return urllib.parse.urlencode(words | {"sig": base64.b64encode(digest).decode()})


def create_container(endpoint: str, name: str) -> None:
    url = f"{endpoint}/{name}?restype=container&{signature()}"
    with urllib.request.urlopen(urllib.request.Request(url, method="PUT")):
        pass
