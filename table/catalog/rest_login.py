"""The headers with which a client of a REST catalog proves who it is: a bearer token, or a signature of DLF."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigError
from penstock.references import resolve
from penstock.storage.environment import Environment

PROVIDER = "token.provider"
TOKEN = "token"  # noqa: S105 -- the name of an option
LOGIN = (PROVIDER, TOKEN)
LOGIN_PREFIX = "dlf."


def check_login(options: Mapping[str, str]) -> None:
    """Raise ConfigError if the options name no supported way to log in."""
    provider = _provider(options)
    if provider == "bear":
        if not options.get(TOKEN):
            hint = "token = ${CATALOG_TOKEN} reads an environment variable, ${file:/path} a file"
            raise ConfigError("a REST catalog needs a token", option=TOKEN, hint=hint)
        return
    hint = "use bear, with the option token"
    raise ConfigError(f"{PROVIDER} = {provider} is not supported", option=PROVIDER, hint=hint)


def login_headers(
    options: Mapping[str, str],
    method: str,
    path: str,
    query: Mapping[str, str],
    data: bytes | None,
    environment: Environment,
) -> dict[str, str]:
    """Return the headers of one request. References to secrets are resolved now, so a renewed token is used."""
    return {"Authorization": f"Bearer {resolve(options[TOKEN])}"}


def _provider(options: Mapping[str, str]) -> str:
    return options.get(PROVIDER, "bear" if options.get(TOKEN) else "").strip().lower()
