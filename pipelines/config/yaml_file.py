"""Reads pipelines from YAML files.

Every scalar keeps its text, so YAML does not turn `no`, `1:30` or `017` into other values. Duplicate keys are errors,
and errors name the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from penstock.errors import ConfigError
from penstock.ingest.connectors import CONNECTORS, connector_named
from penstock.pipelines.config.flink_cdc import is_flink_cdc, translated
from penstock.pipelines.config.load import Place, examined
from penstock.pipelines.config.model import PipelineSpec
from penstock.references import resolve

# References to secrets below these keys, and below keys that a connector names, are resolved only where they are used,
# because specs are printed and sent to other processes.
_KEPT = {("sink", "catalog", "options")}
_DEEPEST = 20
_MOST_VALUES = 100_000
_MOST_BYTES = 16 << 20
_QUOTE = 'quote values that contain ${...}, "like this", inside of { }'
_YAML_HINTS = {
    "'\\t'": "indent YAML with spaces, not with tabs",
    "another document": "a file describes one pipeline: remove the second  ---",
    "special characters": "the file contains bytes that are not text: save it as UTF-8",
    "mapping values are not allowed": 'quote a value that contains a colon and a space, "like this: one"',
    "expected <block end>": "begin the keys of a section in the same column, and the lines of a list with  -",
    "undefined alias": 'quote a value that begins with *, for example "*.json"',
    "expected alphabetic or numeric": 'quote a value that begins with *, for example "*.json"',
}
_MERGE = "tag:yaml.org,2002:merge"
_SECRETS = {("observe", "notify", "webhook")}


@dataclass(frozen=True, slots=True)
class _Document:
    """A file: the line of each place, and the keys of its section `source` whose references are kept."""

    kept: frozenset[str]
    lines: dict[Place, int] = field(default_factory=dict)


def load(path: Path) -> PipelineSpec:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            "the pipeline file cannot be read",
            file=path,
            reason=error.strerror,
            hint="check the path, or write a pipeline file with  penstock init SOURCE WAREHOUSE",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            "the pipeline file is not UTF-8 text", file=path, byte=error.start, hint="save the file as UTF-8"
        ) from error
    return read(text, str(path))


def read(text: str, name: str = "pipeline") -> PipelineSpec:
    found = examine(text, name)
    if isinstance(found, PipelineSpec):
        return found
    raise found[0]


def of_mapping(values: Mapping[str, Any]) -> PipelineSpec:
    """Return the pipeline that a Python mapping describes, under the keys of a file.

    References to secrets work as in a file.
    """
    # By way of YAML text, so that a mapping has the same scalars, references and errors as a file.
    found = examine(yaml.safe_dump(_dumpable(values), sort_keys=False, allow_unicode=True))
    if isinstance(found, PipelineSpec):
        return found
    for fact in ("file", "line"):
        found[0].facts.pop(fact, None)
    raise found[0]


def _dumpable(value: Any) -> Any:
    """Convert paths, enums and similar objects to strings."""
    match value:
        case Mapping():
            return {str(key): _dumpable(member) for key, member in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_dumpable(member) for member in value]
        case None | bool() | int() | float():
            return value
    return str(value)


def examine(text: str, name: str = "pipeline") -> PipelineSpec | list[ConfigError]:
    """Return the pipeline of a file, or a list of everything that is wrong with it."""
    lines: dict[Place, int] = {}
    try:
        root = _composed(text)
        values = _plain(root, (), _Document(_kept(root), lines))
        values = translated(values) if is_flink_cdc(values) else values
        found = examined(values, lambda place: _line(lines, place))
    except ConfigError as error:
        line = _line_of_key(lines, str(error.facts.get("key", "")))
        error.facts = ({} if line is None else {"line": line}) | error.facts
        found = [error]
    if isinstance(found, list):
        for problem in found:
            problem.facts = {"file": name} | problem.facts
    return found


def _composed(text: str) -> yaml.MappingNode:
    if len(text) > _MOST_BYTES:
        raise ConfigError(
            "the file is too large for a pipeline file",
            bytes=len(text),
            hint="check that this is the pipeline's file; one with many tables can be several pipelines",
        )
    try:
        # Nodes and not values, because nodes have the text of scalars and their lines.
        root = yaml.compose(text, yaml.SafeLoader)
    except RecursionError as error:
        raise ConfigError("the file is nested too deeply", hint="nest lists and mappings less deeply") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", error) or error)
        raise ConfigError(
            f"the file is not YAML: {problem}",
            line=None if mark is None else mark.line + 1,
            hint=next((hint for sign, hint in _YAML_HINTS.items() if sign in problem), _QUOTE),
        ) from error
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError("the file does not describe a pipeline", hint="add the sections  source:  and  sink:")
    return root


def _line_of_key(lines: dict[Place, int], key: str) -> int | None:
    """Return the line of the longest place that the key begins with. The names of a place may contain dots."""
    named = ((".".join(map(str, place)), line) for place, line in lines.items() if place)
    found = [(len(name), line) for name, line in named if key == name or key.startswith(f"{name}.")]
    return max(found)[1] if found else None


def _line(lines: dict[Place, int], place: Place) -> int | None:
    """Return the line of the place or, if it is not in the file, of the nearest section that would contain it."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place)


def _plain(node: yaml.Node, place: Place, document: _Document) -> Any:
    # A value that has a key keeps the line of the key, which is set before.
    document.lines.setdefault(place, node.start_mark.line + 1)
    if len(document.lines) > _MOST_VALUES:  # nested aliases: a few lines can expand to millions of values
        raise ConfigError(
            f"the file contains more than {_MOST_VALUES:,} values",
            line=node.start_mark.line + 1,
            hint=(
                "check for anchors nested in anchors; otherwise describe the tables with patterns, or in several "
                "pipelines"
            ),
        )
    if len(place) > _DEEPEST:  # an anchor that contains itself
        raise ConfigError(
            "the file is nested too deeply",
            line=node.start_mark.line + 1,
            hint="check for an anchor that contains itself",
        )
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, place, document)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*place, number), document) for number, item in enumerate(node.value)]
    text = str(node.value)
    # Only a plain scalar can be null: a quoted "null" is text.
    if isinstance(node, yaml.ScalarNode) and node.style is None and text in {"", "~", "null"}:
        return None
    return text if _is_kept(place, document) else _resolved(text, node)


def _resolved(text: str, node: yaml.Node) -> str:
    try:
        return resolve(text)
    except ConfigError as error:
        error.facts["line"] = node.start_mark.line + 1
        raise


def _mapping(node: yaml.MappingNode, place: Place, document: _Document) -> Any:
    values: dict[str, Any] = {}
    merged: list[Any] = []
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError("a key must be a scalar, not a list or a mapping", line=line, hint=_QUOTE)
        name = str(key.value)
        if key.tag == _MERGE:
            merged.extend(_merged(value, place, document))
            continue
        if not place and name.startswith("x-"):  # the top-level place to define anchors
            continue
        if name in values:
            raise ConfigError(f"`{name}` appears twice", line=line, hint="keep one of the two")
        document.lines[(*place, name)] = line
        values[name] = _plain(value, (*place, name), document)
    # Of several merged mappings the earlier one wins, as YAML defines it.
    for mapping in merged:
        values = mapping | values  # the mapping's own keys win over merged ones
    if list(values) == ["secret"]:  # {secret: path}
        reference = f"${{file:{values['secret']}}}"
        return reference if _is_kept(place, document) else _resolved(reference, node)
    return values


def _merged(node: yaml.Node, place: Place, document: _Document) -> list[Any]:
    """Return the mappings that `<<: *anchor` or `<<: [*one, *two]` merges."""
    parts = [_plain(part, place, document) for part in (node.value if isinstance(node, yaml.SequenceNode) else [node])]
    if not all(isinstance(part, dict) for part in parts):
        raise ConfigError("`<<` needs a mapping", line=node.start_mark.line + 1, hint="<<: *anchor")
    return parts


def _is_kept(place: Place, document: _Document) -> bool:
    of_source = place[:1] == ("source",) and len(place) in {2, 3} and place[1] in document.kept
    # In a Flink CDC file, options of the catalog are flat keys of the sink.
    flat = place[:1] == ("sink",) and str(place[-1]).startswith("catalog.properties.")
    return of_source or place[:-1] in _KEPT or place in _SECRETS or flat


def _kept(root: yaml.MappingNode) -> frozenset[str]:
    """Return the keys in which the connector of this file keeps references; of all built-in ones if it is unknown."""
    found = _child(_child(root, "source"), "type")
    connector = CONNECTORS.find(str(found.value)) if isinstance(found, yaml.ScalarNode) else None
    built_in = (connector_named(name).references for name in CONNECTORS.built_in)
    return frozenset().union(*built_in) if connector is None else connector.references


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for name, value in pairs if name.value == key), None)
