"""Table options have the types and defaults of their declarations, and values mean what Paimon means by them."""

from __future__ import annotations

import pickle

import pytest

from penstock.errors import ConfigError
from penstock.table.options import table_options
from penstock.table.options.commits import COMMIT_MIN_RETRY_WAIT
from penstock.table.options.compaction import NUM_LEVELS, NUM_SORTED_RUN_COMPACTION_TRIGGER, WRITE_ONLY
from penstock.table.options.files import FILE_COMPRESSION_PER_LEVEL, TARGET_FILE_SIZE
from penstock.table.options.kinds import FLAG, parse_duration, parse_size
from penstock.table.options.merge_engines import FIELD_DISTINCT, FIELD_SEQUENCE_GROUP, MERGE_ENGINE, SEQUENCE_FIELD
from penstock.table.options.partitions import TAG_PERIOD_FORMATTER
from penstock.table.options.spark import READ_STREAM_MAX_ROWS_PER_TRIGGER
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.table_schema import TableSchema


@pytest.mark.parametrize(
    ("text", "size"), [("128 mb", 128 << 20), ("2g", 2 << 30), ("500", 500), ("1 KB", 1024), ("8mib", 8 << 20)]
)
def test_sizes_accept_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "millis"), [("1 h", 3_600_000), ("60min", 3_600_000), ("10 s", 10_000), ("500", 500), ("7d", 604_800_000)]
)
def test_durations_accept_units(text: str, millis: int) -> None:
    assert parse_duration(text) == millis


def test_defaults_are_kept_once_for_the_columns_of_all_tables() -> None:
    assert TableOptions({})[FIELD_DISTINCT.of("first")] is False
    before = len(table_options._DEFAULTS)
    for number in range(100):
        assert TableOptions({})[FIELD_DISTINCT.of(f"column_{number}")] is False
    assert len(table_options._DEFAULTS) == before


def test_an_option_that_is_not_set_has_its_declared_default() -> None:
    options = TableOptions({})
    assert options[WRITE_ONLY] is False
    assert options[COMMIT_MIN_RETRY_WAIT] == 10
    assert options[TARGET_FILE_SIZE] is None
    assert options[SEQUENCE_FIELD] == ()
    assert options[FILE_COMPRESSION_PER_LEVEL] == {}


def test_a_value_has_the_type_of_its_declaration() -> None:
    options = TableOptions(
        {
            "write-only": " TRUE",
            "target-file-size": "2 mb",
            "sequence.field": " a, b,",
            "file.compression.per.level": "0:lz4, 5 : zstd",
            "tag.period-formatter": "Without-Dashes",
        }
    )
    assert options[WRITE_ONLY] is True
    assert options[TARGET_FILE_SIZE] == 2 << 20
    assert options[SEQUENCE_FIELD] == ("a", "b")
    assert options[FILE_COMPRESSION_PER_LEVEL] == {0: "lz4", 5: "zstd"}
    assert options[TAG_PERIOD_FORMATTER] == "without_dashes"


def test_a_default_of_the_caller_applies_only_to_an_unset_option() -> None:
    assert TableOptions({}).given(NUM_SORTED_RUN_COMPACTION_TRIGGER) is None
    assert TableOptions({"num-sorted-run.compaction-trigger": "5"}).given(NUM_SORTED_RUN_COMPACTION_TRIGGER) == 5
    assert TableOptions({}).get(NUM_LEVELS, 6) == 6
    assert TableOptions({"num-levels": "3"}).get(NUM_LEVELS, 6) == 3


def test_an_option_is_read_under_older_keys_and_in_lower_case() -> None:
    assert TableOptions({"write.compaction-skip": "true"})[WRITE_ONLY] is True
    assert TableOptions({"write-only": "false", "write.compaction-skip": "true"})[WRITE_ONLY] is False
    assert TableOptions({"read.stream.maxrowspertrigger": "9"})[READ_STREAM_MAX_ROWS_PER_TRIGGER] == 9


def test_an_option_of_a_column_is_read_by_the_columns_name() -> None:
    options = TableOptions({"fields.a.distinct": "true", "fields.v,w.sequence-group": "b,c"})
    assert options[FIELD_DISTINCT.of("a")] is True
    assert options[FIELD_DISTINCT.of("b")] is False
    assert [(names, options[group]) for names, group in options.matching(FIELD_SEQUENCE_GROUP)] == [("v,w", ("b", "c"))]


@pytest.mark.parametrize(("text", "message"), [("six", "whole number"), ("1", "set it to 2 or more")])
def test_an_invalid_value_is_refused_with_the_key_of_its_option(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        TableOptions({"num-levels": text})[NUM_LEVELS]
    assert caught.value.facts["option"] == "num-levels"


def test_the_error_for_an_unknown_choice_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        TableOptions({"merge-engine": "partial-updat"})[MERGE_ENGINE]
    assert "did you mean partial-update?" in (caught.value.hint or "")


def test_a_value_is_parsed_once_for_each_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = TableSchema(0, (), 0, options={"write-only": "true"})
    assert schema.typed[WRITE_ONLY] is True
    monkeypatch.setattr(type(FLAG), "parse", lambda *_: pytest.fail("parsed again"))
    assert schema.typed[WRITE_ONLY] is True


def test_options_are_pickled_for_tasks() -> None:
    schema = pickle.loads(pickle.dumps(TableSchema(0, (), 0, options={"write-only": "true"})))
    assert schema.typed[WRITE_ONLY] is True
    assert schema.typed == TableOptions({"write-only": "true"})
