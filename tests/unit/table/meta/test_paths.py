"""The paths of the files of a table."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.table.meta.paths import TablePaths, external


def test_the_main_branch_is_in_the_table_folder() -> None:
    for branch in (None, "main"):
        paths = TablePaths.of("/w/t/", {}, branch)
        assert paths.schema(0) == "/w/t/schema/schema-0"
        assert paths.snapshot(7) == "/w/t/snapshot/snapshot-7"
        assert paths.changelog(7) == "/w/t/changelog/changelog-7"
        assert paths.tag("a") == "/w/t/tag/tag-a"
        assert paths.consumer("a") == "/w/t/consumer/consumer-a"
        assert paths.manifest("manifest-x-0") == "/w/t/manifest/manifest-x-0"
        assert paths.statistics("stat-x-0") == "/w/t/statistics/stat-x-0"
        assert paths.bucket_dir("", 3) == "/w/t/bucket-3"
        assert paths.bucket_dir("a=1/b=2", -2) == "/w/t/a=1/b=2/bucket-postpone"
        assert paths.index_file("index-x-0", "a=1", 0) == "/w/t/index/index-x-0"


def test_branches_share_manifests_and_data() -> None:
    paths = TablePaths.of("/w/t", {}, "dev")
    assert paths.schema(0) == "/w/t/branch/branch-dev/schema/schema-0"
    assert paths.snapshot(7) == "/w/t/branch/branch-dev/snapshot/snapshot-7"
    assert paths.tag("a") == "/w/t/branch/branch-dev/tag/tag-a"
    assert paths.manifest("m") == "/w/t/manifest/m"
    assert paths.bucket_dir("", 0) == "/w/t/bucket-0"


def test_options_move_data_and_indexes() -> None:
    paths = TablePaths.of("/w/t", {"data-file.path-directory": "data/", "index-file-in-data-file-dir": "true"})
    assert paths.bucket_dir("a=1", 0) == "/w/t/data/a=1/bucket-0"
    assert paths.index_file("index-x-0", "a=1", 0) == "/w/t/data/a=1/bucket-0/index-x-0"
    assert paths.manifest("m") == "/w/t/manifest/m"


def test_files_outside_of_the_table_have_urls() -> None:
    assert external(None) is None
    assert [external(url) for url in ("/a/b", "file:/a/b", "file:///a/b")] == ["/a/b"] * 3
    with pytest.raises(ConfigError, match="only on local disks"):
        external("s3://bucket/a")
