"""Which class writes the files of a checkpoint. That Spark uses it is tested with Spark, in test_job.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from penstock.pipelines.spark.checkpoint_files import SETTING, prefer_quick_files

QUICK = "FileSystemBasedCheckpointFileManager"


class Conf(dict[str, str]):
    """The settings of a session."""

    def set(self, key: str, value: str) -> None:
        self[key] = value

    def unset(self, key: str) -> None:
        del self[key]


def session(package: str = "org.apache.spark.sql.execution.streaming.checkpointing") -> Any:
    def find_class(name: str) -> None:
        if name != f"{package}.{QUICK}":
            raise Py4JJavaError("no class", SimpleNamespace(_target_id="o1", _gateway_client=None))

    lang = SimpleNamespace(Class=SimpleNamespace(forName=find_class))
    jvm = SimpleNamespace(java=SimpleNamespace(lang=lang))
    return SimpleNamespace(conf=Conf(), sparkContext=SimpleNamespace(_jvm=jvm))


@pytest.mark.parametrize("checkpoint", ["/data/checkpoint", "file:///data/checkpoint", "checkpoint"])
def test_a_local_checkpoint_is_written_by_the_quick_class(checkpoint: str) -> None:
    for package in (
        "org.apache.spark.sql.execution.streaming.checkpointing",
        "org.apache.spark.sql.execution.streaming",
    ):
        made = session(package)
        prefer_quick_files(made, checkpoint)
        assert made.conf[SETTING] == f"{package}.{QUICK}"


@pytest.mark.parametrize("checkpoint", ["s3a://bucket/checkpoint", "hdfs://name/checkpoint"])
def test_other_checkpoints_keep_the_default_of_spark(checkpoint: str) -> None:
    made = session()
    prefer_quick_files(made, checkpoint)
    assert made.conf == {}
    prefer_quick_files(made, "/data")
    prefer_quick_files(made, checkpoint)
    assert made.conf == {}


@pytest.mark.parametrize("checkpoint", ["/data", "hdfs://name/checkpoint"])
def test_a_class_that_the_user_has_set_stays(checkpoint: str) -> None:
    made = session()
    made.conf[SETTING] = "com.example.Own"
    prefer_quick_files(made, checkpoint)
    assert made.conf == {SETTING: "com.example.Own"}
