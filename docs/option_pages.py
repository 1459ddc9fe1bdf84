"""The tables of docs/table-options.md, from the declarations of table and catalog options."""

from __future__ import annotations

from penstock.storage.catalog_options import WITHOUT_EFFECT
from penstock.table.options.catalog import FAMILIES, OPTIONS
from penstock.table.options.declaration import Effect, Scope, Stops, TableOption
from penstock.table.options.kinds import Kind

_KINDS = {"statistics": "none, counts, full or truncate(n)", "names": "names, separated by commas"}
_STOPS = {
    Stops.SETTING: "",
    Stops.WRITING: " A table that has it already can be read, not written.",
    Stops.READING: " A table that has it already can be neither read nor written.",
}


def table_options() -> str:
    counts = {effect: sum(option.effect is effect for option in OPTIONS) for effect in Effect}
    head = (
        f"\n{len(OPTIONS)} options: {counts[Effect.ACTS]} act, {counts[Effect.REPORTED]} are reported,"
        f" {counts[Effect.REFUSED]} are refused.\n"
    )
    return head + "".join(_family(title, options) for title, options in FAMILIES.items())


def catalog_options() -> str:
    refused = [
        ("metastore", "`filesystem`, `hive` and `jdbc` ([catalogs](catalogs.md)); others if a package adds them"),
        ("table.type", "dropping a table deletes its folder: `managed` is accepted, `external` refused"),
    ]
    rows = [*refused, *((name, f"no effect: {note}") for name, note in WITHOUT_EFFECT.items())]
    lines = "\n".join(f"| `{name}` | {said} |" for name, said in rows)
    return f"\n| option | here |\n|---|---|\n{lines}\n"


def _family(title: str, options: tuple[TableOption[object], ...]) -> str:
    rows = "\n".join(_row(option) for option in options)
    return f"\n## {title}\n\n| option | value | default | meaning | here |\n|---|---|---|---|---|\n{rows}\n"


def _row(option: TableOption[object]) -> str:
    default = f"`{option.default}`" if option.default else ""
    return f"| {_names(option)} | {_kind(option.kind)} | {default} | {_meaning(option)} | {_here(option)} |"


def _names(option: TableOption[object]) -> str:
    old = "".join(f"<br>formerly `{name}`" for name in option.old_keys)
    return f"`{option.key}`{old}"


def _kind(kind: Kind[object]) -> str:
    if kind.choices:
        return ", ".join(f"`{choice}`" for choice in kind.choices)
    name = _KINDS.get(kind.name, kind.name)
    return f"{name}, {kind.range}" if kind.range else name


def _meaning(option: TableOption[object]) -> str:
    whose = "" if option.scope in {Scope.TABLE, Scope.READ} else f" ({option.scope.value})"
    return f"{option.meaning}{whose}{' Later than Paimon 1.3.' if option.later else ''}"


def _here(option: TableOption[object]) -> str:
    if option.effect is Effect.ACTS:
        return "acts"
    if option.effect is Effect.REPORTED:
        return f"no effect: {option.note}"
    allowed = f" (`{'`, `'.join(option.harmless)}` is accepted)" if option.harmless else ""
    return f"refused{allowed}: {option.note}.{_STOPS[option.stops]}"
