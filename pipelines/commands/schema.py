"""`penstock schema`: the JSON Schema of pipeline files, for editors that complete and check them."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.pipelines.commands.arguments import parse
from penstock.pipelines.config.flags import Flag

FLAGS = (
    Flag("output", "file to write to (default: standard output)", metavar="FILE"),
    Flag("json", "accepted without effect: the output is always JSON", "bool"),
)


def command(name: str, words: list[str]) -> int:
    given = parse(name, FLAGS, words, "Write the JSON Schema of pipeline files.")
    from penstock.pipelines.config.json_schema import json_schema

    text = json.dumps(json_schema(), indent=2)
    if "output" in given:
        Path(given["output"][-1]).write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
    return 0
