"""Paimon's and Hadoop's options as the stores' own."""

from __future__ import annotations

import pytest
from obstore.store import AzureStore

from penstock.errors import ConfigError
from penstock.storage.open import open_storage
from penstock.storage.options import azure_config, check_known, gcs_config, s3_config


@pytest.mark.parametrize("prefix", ["s3.", "s3a.", "fs.s3a."])
@pytest.mark.parametrize("dash", ["-", "."])
def test_all_spellings_of_the_s3_keys_are_accepted(prefix: str, dash: str) -> None:
    options = {f"{prefix}access{dash}key": "A", f"{prefix}secret{dash}key": "S", f"{prefix}endpoint{dash}region": "eu"}
    assert s3_config("b", options) == {"access_key_id": "A", "secret_access_key": "S", "region": "eu"}


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ({"s3.endpoint": "minio:9000"}, {"endpoint": "https://minio:9000"}),
        ({"s3.endpoint": "minio:9000", "s3.connection.ssl.enabled": "false"}, {"endpoint": "http://minio:9000"}),
        ({"s3.endpoint": "http://minio:9000/", "s3.path.style.access": "true"}, {"endpoint": "http://minio:9000"}),
        (
            {"s3.endpoint": "https://oss.example.com", "s3.path-style-access": "false"},
            {"endpoint": "https://lake.oss.example.com", "virtual_hosted_style_request": "true"},
        ),
        (
            {"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
            {"skip_signature": "true"},
        ),
        ({"object-store.conditional_put": "etag", "fs.s3a.threads.max": "9"}, {"conditional_put": "etag"}),
    ],
)
def test_endpoints_and_other_options(options: dict[str, str], config: dict[str, str]) -> None:
    assert s3_config("lake", options) == config


def test_a_path_style_that_is_not_a_boolean_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"path\.style\.access"):
        s3_config("lake", {"s3.path.style.access": "yes"})


OAUTH = "fs.azure.account.oauth"
CLIENT = {f"{OAUTH}2.client.id": "I", f"{OAUTH}2.client.secret": "S"}


def test_an_application_logs_in_at_azure_by_options_of_hadoop() -> None:
    account = "acme.dfs.core.windows.net"
    given = CLIENT | {
        f"fs.azure.account.auth.type.{account}": "OAuth",
        f"{OAUTH}.provider.type.{account}": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
        f"{OAUTH}2.client.endpoint.{account}": "https://login.microsoftonline.com/T-1/oauth2/token",
    }
    check_known(given)
    expected = {"account_name": "acme", "client_id": "I", "client_secret": "S", "tenant_id": "T-1"}
    assert azure_config(account, given) == expected
    AzureStore("lake", config=azure_config(account, given))
    other = {f"{OAUTH}2.client.endpoint": "https://login.chinacloudapi.cn/T-2/oauth2/v2.0/token"}
    found = azure_config("", CLIENT | other)
    assert (found["tenant_id"], found["authority_host"]) == ("T-2", "https://login.chinacloudapi.cn")
    AzureStore("lake", config={"account_name": "acme", **found})
    identity = {f"{OAUTH}2.token.file": "/token", f"{OAUTH}2.msi.tenant": "T", f"{OAUTH}2.client.id": "I"}
    AzureStore("lake", config={"account_name": "acme", **azure_config("", identity)})


def test_a_managed_identity_logs_in_at_azure_by_options_of_hadoop() -> None:
    given = {
        "fs.azure.account.auth.type": "OAuth",
        f"{OAUTH}.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.MsiTokenProvider",
        f"{OAUTH}2.msi.endpoint": "http://169.254.169.254/metadata/identity/oauth2/token",
        f"{OAUTH}2.msi.authority": "https://login.microsoftonline.com/",
        f"{OAUTH}2.client.endpoint": "",
    }
    check_known(given)
    config = azure_config("acme.dfs.core.windows.net", given)
    assert config == {"account_name": "acme", "msi_endpoint": given[f"{OAUTH}2.msi.endpoint"]}
    other = azure_config("", given | {f"{OAUTH}2.msi.authority": "https://login.chinacloudapi.cn/"})
    assert other["authority_host"] == "https://login.chinacloudapi.cn"
    AzureStore("lake", config=config | other)


@pytest.mark.parametrize("auth", ["SharedKey", "SAS"])
def test_options_of_a_login_have_no_effect_on_an_account_with_a_key_at_azure(auth: str) -> None:
    given = CLIENT | {f"{OAUTH}.provider.type": "a.b.UserPasswordTokenProvider", f"{OAUTH}2.client.endpoint": "?"}
    own = {"fs.azure.account.auth.type.acme.dfs.core.windows.net": auth, "fs.azure.account.key": "K"}
    assert azure_config("acme.dfs.core.windows.net", given | own) == {"account_name": "acme", "account_key": "K"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({f"{OAUTH}.provider.type": "a.b.UserPasswordTokenProvider"}, "by a.b.UserPasswordTokenProvider"),
        ({"fs.azure.account.auth.type": "Custom"}, "by Custom is not supported"),
        ({f"{OAUTH}2.client.endpoint": "https://login.microsoftonline.com/"}, "is not an address for tokens"),
    ],
)
def test_other_logins_at_azure_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        azure_config("acme.dfs.core.windows.net", options)


def test_google_and_azure_credentials() -> None:
    assert gcs_config({"fs.gs.auth.service.account.json.keyfile": "/k.json"}) == {"service_account": "/k.json"}
    account = "acme.dfs.core.windows.net"
    assert azure_config(account, {f"fs.azure.account.key.{account}": "K"}) == {
        "account_name": "acme",
        "account_key": "K",
    }
    assert azure_config(account, {"fs.azure.sas.fixed.token": "S"}) == {"account_name": "acme", "sas_key": "S"}


def test_a_key_of_another_host_of_the_account_is_used_and_that_of_another_account_is_not() -> None:
    account, other = "acme.dfs.core.windows.net", "fs.azure.account.key.acme2.dfs.core.windows.net"
    of_blobs = {"fs.azure.account.key.acme.blob.core.windows.net": "K", "fs.azure.account.key": "general", other: "X"}
    assert azure_config(account, of_blobs)["account_key"] == "K"
    assert azure_config(account, of_blobs | {f"fs.azure.account.key.{account}": "own"})["account_key"] == "own"
    assert "account_key" not in azure_config(account, {other: "X"})


@pytest.mark.parametrize(
    ("url", "shown", "path"),
    [
        ("s3a://lake/a/b/", "ObjectStorage(s3://lake)", "/a/b"),
        ("s3://lake", "ObjectStorage(s3://lake)", "/"),
        ("gs://lake/a", "ObjectStorage(gs://lake)", "/a"),
        ("abfss://c@acme.dfs.core.windows.net/a", "ObjectStorage(abfs://c, account_name=acme)", "/a"),
        ("hdfs://nn:8020/user/x", "HdfsStorage(hdfs://nn:8020)", "/user/x"),
        ("hdfs:///user/x", "HdfsStorage(hdfs://)", "/user/x"),
    ],
)
def test_urls_name_store_and_path(url: str, shown: str, path: str) -> None:
    storage, inside = open_storage(url, {})
    assert (repr(storage), inside) == (shown, path)


def test_a_url_without_a_bucket_is_refused() -> None:
    with pytest.raises(ConfigError, match="no bucket"):
        open_storage("s3:///a", {})


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("s3.acces-key", "s3.access.key"),
        ("s3-access-key", "s3.access.key"),
        ("S3.endpoint", "s3.endpoint"),
        ("fs.s3a.secret.keys", "fs.s3a.secret.key"),
        ("s3.path-stile-access", "s3.path.style.access"),
        ("fs.azure.acount.key", "fs.azure.account.key"),
        ("fs.azure.sas.fixed.tokens", "fs.azure.sas.fixed.token"),
        ("security.kerberos.login.keytabs", "security.kerberos.login.keytab"),
        ("object.store.endpoint", "object-store.endpoint"),
        ("local.synch", "local.sync"),
    ],
)
def test_a_misspelt_option_is_refused_with_the_nearest_name(misspelt: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"{misspelt!r} is not a store option") as refused:
        open_storage("s3://lake/a", {misspelt: "x"})

    assert refused.value.hint == f"did you mean {meant}?"


def test_options_without_effect_are_logged_once_except_those_of_hadoop(caplog: pytest.LogCaptureFixture) -> None:
    options = {"fs.s3a.threads.max": "9", "fs.s3a.server-side-encryption-algorithm": "AES256", "dfs.nameservices": "a"}
    for _ in range(2):
        open_storage("s3://lake/a", {**options, "fs.azure.account.key.acme.dfs.core.windows.net": "K"})

    assert [record.args for record in caplog.records] == [("fs.s3a.server-side-encryption-algorithm",)]


def test_an_option_unknown_to_the_client_is_a_config_error() -> None:
    storage, _ = open_storage("s3://lake/a", {"object-store.nonsense": "1"})

    with pytest.raises(ConfigError, match="'nonsense' is not valid for store 'S3'"):
        storage.read("/a/b")
