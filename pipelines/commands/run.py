"""`penstock run FILE`: a pipeline described in YAML."""

from __future__ import annotations

from pathlib import Path

from penstock.pipelines.commands.arguments import parse_with_file
from penstock.pipelines.commands.running import run_here
from penstock.pipelines.spec.actions import Flag
from penstock.pipelines.spec.pairs import pairs

FLAGS = (
    Flag("until-caught-up", "take what is there now, commit, exit 0", "bool"),
    Flag("accept-replay", "go on with a new checkpoint though rows may come twice", "bool"),
    Flag("resume-from-tables", "start a new checkpoint where the tables are", "bool"),
    Flag("checkpoint", "folder of the checkpoint", metavar="PATH"),
    Flag("master", "Spark's master (this machine, all cores)", metavar="URL"),
    Flag("spark-conf", "setting of the Spark session; repeat", "pairs", "K=V"),
)


def command(name: str, words: list[str]) -> int:
    path, given = parse_with_file(name, FLAGS, words, "Run the pipeline that a YAML file describes.")
    from penstock.pipelines.spec import yaml_file

    spec = yaml_file.load(Path(path))
    changes: dict[str, object] = {}
    if given.get("until-caught-up", ["false"])[-1] == "true":
        changes["until"] = "caught-up"
    for flag in ("accept-replay", "resume-from-tables"):
        if flag in given:
            changes[flag.replace("-", "_")] = given[flag][-1] == "true"
    if "checkpoint" in given:
        changes["checkpoint"] = given["checkpoint"][-1]
    spec = spec.model_copy(update={"pipeline": spec.pipeline.model_copy(update=changes)})
    return run_here(spec, master=given.get("master", [None])[-1], settings=pairs(given.get("spark-conf", ())))
