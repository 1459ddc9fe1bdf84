"""An estimate of how many requests a pipeline makes to an object store, and of what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.storage.open import is_object_store
from penstock.table.commit.request_estimate import requests_of_batch
from penstock.table.options.buckets import BUCKET
from penstock.table.options.table_options import TableOptions

_DAY, _DAYS_OF_MONTH = 86_400, 30
_CONTINUOUS = 1.0  # seconds between batches that is assumed where each begins as soon as the last one has ended


@dataclass(frozen=True, slots=True)
class RequestPrices:
    """US dollars for 1,000 requests. The defaults are the prices of S3 Standard in the region us-east-1."""

    writes: float = 0.005  # listings, too
    reads: float = 0.0004

    @classmethod
    def parse(cls, given: str | None) -> RequestPrices:
        """Return the prices of a flag, such as `0.005,0.0004`."""
        if given is None:
            return cls()
        try:
            writes, reads = (float(price) for price in given.split(","))
        except ValueError as reason:
            raise ConfigError(
                f"--request-prices {given!r} is not two prices",
                hint="US dollars for 1,000 writes and for 1,000 reads, such as  --request-prices 0.005,0.0004",
            ) from reason
        return cls(writes, reads)


@dataclass(frozen=True, slots=True)
class StoreCost:
    """The estimate for a pipeline all of whose tables change in each batch."""

    tables: int
    seconds: float  # from one batch to the next
    requests_per_day: int
    dollars_per_month: float
    prices: RequestPrices
    slow: int = 0  # tables that are committed more seldom, by their freshness

    @classmethod
    def of(
        cls,
        warehouse: str,
        tables: Iterable[tuple[Mapping[str, str], bool, float]],
        trigger: float,
        prices: RequestPrices,
    ) -> StoreCost | None:
        """Return the estimate for tables, each as its options, whether it has a primary key, and its freshness.

        None if the warehouse is not on an object store, or if there are no tables.
        """
        seconds, writes, reads, count, slow = trigger or _CONTINUOUS, 0.0, 0.0, 0, 0
        for given, keyed, freshness in tables:
            options = TableOptions(given)
            requests = requests_of_batch(options, max(1, options[BUCKET]), keyed=keyed)
            commits = _DAY / max(seconds, freshness)
            writes += (requests.puts + requests.lists) * commits
            reads += requests.reads * commits
            count, slow = count + 1, slow + (freshness > seconds)
        if not count or not is_object_store(warehouse):
            return None
        cost = (writes * prices.writes + reads * prices.reads) / 1000 * _DAYS_OF_MONTH
        return cls(count, seconds, round(writes + reads), round(cost, 2), prices, slow)

    @property
    def facts(self) -> dict[str, object]:
        """Return the estimate for programs."""
        return {
            "estimate": True,
            "tables": self.tables,
            "tables_with_freshness": self.slow,
            "seconds_between_batches": self.seconds,
            "requests_per_day": self.requests_per_day,
            "dollars_per_month": self.dollars_per_month,
            "dollars_per_1000_writes": self.prices.writes,
            "dollars_per_1000_reads": self.prices.reads,
        }

    def __str__(self) -> str:
        tables = "1 table changes" if self.tables == 1 else f"{self.tables:,} tables change"
        return (
            f"estimate: at most about {self.requests_per_day:,} requests a day to the object store,"
            f" ${self.dollars_per_month:,.2f} a month, if {tables} in every batch, each {self.seconds:g} s"
            f"{f', and {self.slow:,} of them by their freshness' if self.slow else ''}"
            " (without compaction in the background, maintenance and storage)"
        )
