"""`penstock check FILE`: everything that prevents a pipeline from running, in one report. Changes nothing."""

from __future__ import annotations

from penstock.errors import counted
from penstock.ingest.sync_actions import Flag
from penstock.pipelines.api.check import checked, checked_spec
from penstock.pipelines.api.findings import exit_code
from penstock.pipelines.commands.output import answer, wants_json
from penstock.pipelines.commands.pipeline_choice import action_of, file_given, spec_of_flags
from penstock.pipelines.commands.target import JSON

_DOES = "Check the file, the source, the warehouse, the checkpoint and Java, and report all problems. Changes nothing."

FLAGS = (Flag("spark-conf", "accepted as by run; no check depends on it", "pairs", "K=V"), JSON)


def command(name: str, words: list[str]) -> int:
    if (action := action_of(words)) is not None:
        spec, flags = spec_of_flags(name, words, (JSON,), _DOES)
        findings, then = list(checked_spec(spec)), f"{action.name} ..."
    else:
        path, flags = file_given(name, FLAGS, words, _DOES)
        findings, then = list(checked(path)), f"run {path}"
    code = exit_code(findings)
    if wants_json(flags):
        answer(flags, {"ok": code == 0, "findings": [finding.facts() for finding in findings]})
        return code
    for finding in findings:
        print("\n".join(finding.lines()))
    errors = sum(finding.level == "error" for finding in findings)
    warnings = sum(finding.level == "warning" for finding in findings)
    warned = counted(warnings, "warning") if warnings else ""
    if errors:
        print(f"\n{counted(errors, 'error')}{', ' if warned else ''}{warned}")
    else:
        print(f"\nready: penstock {then}{f'   ({warned})' if warned else ''}")
    return code
