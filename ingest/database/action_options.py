"""Checks of the options that Paimon's actions for databases share, with the texts of Paimon's errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from penstock.errors import ConfigError, did_you_mean, nearest

log = logging.getLogger(__name__)


def check_names(
    conf: Mapping[str, str], database: str, required: Sequence[str], name: str, *, names_table: bool
) -> None:
    """Raise ConfigError if a required option is missing, or if `name` is set although the action writes a database.

    `name` is the option that names the source table or collection: with `names_table`, the action writes one target
    table, and needs the option. `database` is the kind of the database, as in `mysql_conf`.
    """
    for key in (*required, name) if names_table else required:
        if not conf.get(key):
            near = nearest(key, [given for given in conf if given not in (*required, name)], 0.8)
            misspelt = f"; there is no option {near}" if near else ""
            raise ConfigError(f"{database}_conf [{key}] must be specified.", hint=f"set the option {key}{misspelt}")
    if not names_table and name in conf:
        raise ConfigError(
            f"{name} cannot be set for {database}_sync_database.",
            hint="choose the tables with --including-tables and --excluding-tables",
        )


def check_options(
    conf: Iterable[str], database: str, has_effect: Callable[[str], bool | None], known: Collection[str]
) -> None:
    """Log options without effect, and raise ConfigError for unknown ones.

    `has_effect` returns True for an option that is acted on, False for one that only other connectors know, None for an
    unknown one. `known` are names that an unknown one may be meant for.
    """
    for key in conf:
        effect = has_effect(key)
        if effect is None:
            raise ConfigError(f"{database}_conf has no option {key}", hint=did_you_mean(key, sorted(known)))
        if not effect:
            log.warning("event=%s_conf_without_effect key=%s", database, key)


def startup_mode(given: object, modes: Sequence[str], connector: str) -> str:
    """Return the mode that one of its names means. ValueError for another text."""
    text = str(given).strip().lower()
    text = {"earliest": "earliest-offset", "latest": "latest-offset"}.get(text, text)
    if text not in modes:
        valid = ", ".join(modes)
        raise ValueError(f"Unknown scan.startup.mode='{given}'. Valid scan.startup.mode for {connector} are [{valid}]")
    return text
