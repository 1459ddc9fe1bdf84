"""Rules that use a column which the source has dropped: with isolated tables, only their table stops."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.api.check import checked_spec
from penstock.pipelines.api.sample import tables_planned
from penstock.pipelines.config.model import PipelineSpec
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync

pytestmark = pytest.mark.mysql
RULES = {
    "projection": ("transform", {"projection": "*, a + 1 as b"}),
    "filter": ("transform", {"filter": "a > 0"}),
    "expectation": ("expect", {"condition": "a > 0"}),
}


@dataclass
class RuledSync(Sync):
    """A pipeline with one rule on the table t, such as a file may have."""

    rule: dict[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> PipelineSpec:
        given = super().spec
        return type(given).model_validate(given.model_dump(by_alias=True) | self.rule)


def begin(server: Playground, tmp_path: Path, case: str, *flags: str) -> RuledSync:
    section, rule = RULES[case]
    for table in ("t", "u"):
        server.run(f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT)", f"INSERT INTO {table} VALUES (1, 1)")
    sync = RuledSync(server, tmp_path, flags=flags, rule={section: [{"source-table": f"{DATABASE}.t"} | rule]})
    sync.run()
    server.run("ALTER TABLE t DROP COLUMN a", "INSERT INTO u VALUES (2, 2)")
    return sync


@pytest.mark.parametrize("case", RULES)
def test_a_start_with_a_rule_for_a_dropped_column_stops_only_its_table(
    server: Playground, tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    sync = begin(server, tmp_path, case, "--isolate", "true")
    with caplog.at_level(logging.WARNING):
        sync.run()
    assert sync.ids("u") == [1, 2]
    assert "event=rule_fails reason=a rule fails on" in caplog.text
    server.run("INSERT INTO t VALUES (2)", "INSERT INTO u VALUES (3, 3)")
    sync.run()
    assert "event=table_parked table=ods.t" in caplog.text
    assert (sync.ids("t"), sync.ids("u")) == ([1], [1, 2, 3])
    server.run("INSERT INTO t VALUES (3)", "INSERT INTO u VALUES (4, 4)")
    sync.run()
    assert (sync.ids("t"), sync.ids("u")) == ([1], [1, 2, 3, 4])
    warnings = [finding.message for finding in checked_spec(sync.spec) if finding.level == "warning"]
    assert any("a rule fails on" in warning for warning in warnings)
    assert not [finding for finding in checked_spec(sync.spec) if finding.level == "error"]
    looked, planned = tables_planned(sync.spec, 10)
    assert "a rule fails on" in looked
    assert [plan.table for plan in planned] == ["ods.u"]
    # As the warning says.
    sync.rule, sync.flags = {}, (*sync.flags, "--retry", "true")
    sync.run()
    assert sync.ids("t") == [1, 2, 3]


def test_without_isolation_such_a_start_is_refused(server: Playground, tmp_path: Path) -> None:
    sync = begin(server, tmp_path, "filter")
    with pytest.raises(ConfigError, match="'a', which is not a column"):
        sync.run()


def test_a_rule_that_never_fitted_is_refused(server: Playground, tmp_path: Path) -> None:
    sync = begin(server, tmp_path, "filter", "--isolate", "true")
    sync.flags = (*sync.flags, "--checkpoint", f"{tmp_path}/another", "--accept-replay", "true")
    with pytest.raises(ConfigError, match="'a', which is not a column"):
        sync.run()
