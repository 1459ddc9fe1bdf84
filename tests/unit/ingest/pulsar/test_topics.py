from __future__ import annotations

import re

import pytest

from penstock.ingest.pulsar.topics import full_name, namespace_of, partition_name, place_of


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("orders", "persistent://public/default/orders"),
        ("acme/sales/orders", "persistent://acme/sales/orders"),
        ("persistent://acme/sales/orders", "persistent://acme/sales/orders"),
    ],
)
def test_short_names_are_of_the_default_namespace(short: str, full: str) -> None:
    assert full_name(short) == full


@pytest.mark.parametrize(
    "name", ["persistent://a/b/c", "persistent://a/b/c-partition-12", "persistent://a/b/x-partition"]
)
def test_a_partition_is_a_topic_and_a_number(name: str) -> None:
    assert partition_name(place_of(name)) == name


def test_a_topic_without_partitions_has_the_number_that_ids_have() -> None:
    assert place_of("persistent://a/b/c") == ("persistent://a/b/c", -1)
    assert place_of("persistent://a/b/c-partition-0") == ("persistent://a/b/c", 0)


@pytest.mark.parametrize(
    ("pattern", "namespace", "name"),
    [
        ("shop_.*", "public/default", "persistent://public/default/shop_1"),
        ("acme/sales/shop_.*", "acme/sales", "persistent://acme/sales/shop_1"),
        ("persistent://acme/sales/.*", "acme/sales", "persistent://acme/sales/shop_1"),
    ],
)
def test_a_pattern_matches_in_its_namespace(pattern: str, namespace: str, name: str) -> None:
    found, whole = namespace_of(pattern)
    assert found == namespace
    assert re.fullmatch(whole, name)
