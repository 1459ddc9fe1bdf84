"""The language of conditions for single source tables, as sources see it.

Its parser is imported when there is a condition: every pipeline has the language, few have a condition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.schema_evolution.types.mapping import TypeMapping

if TYPE_CHECKING:
    from penstock.formats.change import ChangeBatch, SourceSchema
    from penstock.formats.demand import Demand


@dataclass(frozen=True, slots=True)
class FilterLanguage:
    """The `ConditionLanguage` of pipelines. Columns have the types and the names of the source table."""

    mapping: TypeMapping
    zone: str = "UTC"

    def part(self, text: str, schema: SourceSchema) -> Demand:
        from penstock.schema_evolution.row_conditions import condition_part

        return condition_part(text, schema, self.mapping, self.zone)

    def met(self, text: str, change: ChangeBatch) -> tuple[ChangeBatch, int]:
        from penstock.schema_evolution.row_conditions import rows_meeting

        return rows_meeting(text, change, self.mapping, self.zone)
