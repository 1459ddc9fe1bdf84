"""Addresses that replace the cloud's, and options that the client cannot use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.storage.object_store_client import new_client, own_addresses

ADDRESS = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("kind", "options", "variables"),
    [
        ("s3", {"endpoint": ADDRESS}, {}),
        ("s3", {}, {"AWS_ENDPOINT_URL": ADDRESS}),
        ("s3", {}, {"AWS_ENDPOINT_URL_S3": ADDRESS}),
        ("abfs", {"azure_storage_endpoint": ADDRESS}, {}),
        ("abfs", {}, {"AZURE_STORAGE_ENDPOINT": ADDRESS}),
        ("gs", {"base_url": ADDRESS}, {}),
        ("gs", {}, {"GOOGLE_BASE_URL": ADDRESS}),
        ("gs", {"service_account_key": json.dumps({"gcs_base_url": ADDRESS})}, {}),
    ],
)
def test_an_address_is_an_option_or_a_variable(
    kind: str, options: dict[str, str], variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert own_addresses(kind, options) == [ADDRESS]


def test_the_key_file_of_an_account_may_name_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key.json"
    file.write_text(json.dumps({"gcs_base_url": ADDRESS}))
    assert own_addresses("gs", {"service_account": str(file)}) == [ADDRESS]
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(file))
    assert own_addresses("gs", {}) == [ADDRESS]


@pytest.mark.parametrize("text", ["no JSON", "[]", "{}", '{"gcs_base_url": 1}'])
def test_a_key_without_an_address_has_none(text: str, tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    file.write_text(text)
    for options in ({"service_account": str(file)}, {"service_account_key": text}, {"service_account": "/no/such"}):
        assert own_addresses("gs", options) == []


@pytest.mark.parametrize("kind", ["s3", "gs", "abfs"])
def test_a_cloud_without_options_has_its_own_address(kind: str) -> None:
    assert own_addresses(kind, {"account_name": "a", "region": "r"}) == []


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("s3", "AWS_STS_REGIONAL_ENDPOINTS", "regional"),
        ("s3", "AWS_USE_FIPS_ENDPOINT", "true"),
        ("s3", "AWS_EC2_METADATA_SERVICE_ENDPOINT", ADDRESS),
        ("s3", "AWS_ENDPOINT_URL_DYNAMODB", ADDRESS),
        ("s3", "AWS_ENDPOINT_URL", ""),
        ("abfs", "AZURE_MSI_ENDPOINT", ADDRESS),
        ("abfs", "AZURE_STORAGE_USE_EMULATOR", "false"),
    ],
)
def test_variables_about_other_services_give_no_address_of_the_store(
    kind: str, name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, text)
    assert own_addresses(kind, {}) == []


def test_an_emulator_is_another_server_than_the_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    assert own_addresses("abfs", {}) == ["true"]


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("gs", {"service_account": "/no/such/key.json"}, "No such file or directory"),
        ("gs", {"service_account_key": "no JSON"}, "Unable to decode service account"),
        ("abfs", {"account_name": "a", "account_key": "no base 64"}, "Invalid Access Key"),
        ("s3", {"skip_signature": "perhaps"}, "boolean"),
        ("s3", {"nonsense": "1"}, "'nonsense' is not valid for store 'S3'"),
    ],
)
def test_options_that_the_client_cannot_use_are_refused(kind: str, options: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        new_client(kind, "lake", options)
    assert reason in str(refused.value)
