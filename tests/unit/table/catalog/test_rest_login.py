"""The ways to log in to a REST server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.storage.environment import Environment
from penstock.table.catalog.rest_login import check_login, login_headers

DLF = {
    "token.provider": "dlf",
    "dlf.region": "cn-hangzhou",
    "dlf.access-key-id": "access-key-id",
    "dlf.access-key-secret": "access-key-secret",
    "dlf.security-token": "securityToken",
}
NOON = Environment(now_millis=lambda: 1_701_605_532_000)  # 2023-12-03 12:12:12 UTC


def test_a_token_alone_is_a_bearer_token() -> None:
    check_login({"token": "t"})
    check_login({"token": "t", "token.provider": " Bear "})


@pytest.mark.parametrize("provider", ["", "kerberos"])
def test_other_providers_are_refused_by_name(provider: str) -> None:
    options = {"metastore": "rest", "uri": "http://host", "token.provider": provider}
    with pytest.raises(ConfigError, match=rf"token.provider = {provider}") as caught:
        penstock.Catalog("lake", options)
    assert caught.value.facts["option"] == "token.provider"


def signature(headers: dict[str, str]) -> str:
    return headers["Authorization"].rpartition("=")[2]


def test_requests_are_signed_as_pypaimon_signs_them() -> None:
    body = login_headers(DLF, "POST", "/v1/paimon/databases", {"k1": "v1", "k2": "v2"}, b"data", NOON)
    assert body["Authorization"].startswith(
        "DLF4-HMAC-SHA256 Credential=access-key-id/20231203/cn-hangzhou/DlfNext/aliyun_v4_request,Signature="
    )
    assert signature(body) == "e935d404b798630fd7fdb4d5b370c80a2c91f36e7641b3b18228b6c35911ba72"
    assert body["Content-MD5"] == "jXd/OF09/siBXSD3SWAm3A=="
    plain = {key: text for key, text in DLF.items() if key != "dlf.security-token"}
    asked = login_headers(plain, "GET", "/v1/config", {"warehouse": "a+b/c", "empty": ""}, None, NOON)
    assert signature(asked) == "98ea757f645e21387980f3ef1f7cb1a2c31e9d4cc1e682a3fb51b0c1b15724a1"


def test_keys_are_read_from_a_file_for_each_request(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    options = {"token.provider": "dlf", "dlf.region": "cn-hangzhou", "dlf.token-path": str(file)}
    check_login(options)
    seen = set()
    for secret in ("one", "two"):
        keys = {"accessKeyId": "id", "accessKeySecret": secret, "securityToken": "t", "expiration": "2026-01-01"}
        file.write_text(json.dumps(keys))
        seen.add(signature(login_headers(options, "GET", "/v1/config", {}, None, NOON)))
    assert len(seen) == 2
    file.write_text("[]")
    with pytest.raises(ConfigError, match="file with keys"):
        login_headers(options, "GET", "/v1/config", {}, None, NOON)


@pytest.mark.parametrize(
    ("changed", "option"),
    [
        ({"dlf.region": ""}, "dlf.region"),
        ({"dlf.access-key-secret": ""}, "dlf.access-key-id"),
        ({"dlf.token-loader": "ecs"}, "dlf.token-loader"),
        ({"dlf.signing-algorithm": "openapi"}, "dlf.signing-algorithm"),
        ({"dlf.acces-key": "x"}, "dlf.acces-key"),
    ],
)
def test_logins_to_dlf_that_cannot_work_are_refused(changed: dict[str, str], option: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_login({**DLF, **changed})
    assert caught.value.facts["option"] == option


@pytest.mark.parametrize("secret", ["two\nlines", "tökén", "日本"])
def test_a_token_that_no_header_can_contain_is_not_shown(secret: str) -> None:
    for options in (
        {"token": secret},
        {
            "token.provider": "dlf", "dlf.region": "r", "dlf.access-key-id": "a", "dlf.access-key-secret": "b",
            "dlf.security-token": secret,
        },
    ):  # fmt: skip
        with pytest.raises(ConfigError, match="header") as caught:
            login_headers(options, "GET", "/v1/config", {}, None, Environment())
        assert secret not in str(caught.value)
        assert "token" in str(caught.value.facts["option"])
