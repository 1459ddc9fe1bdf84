"""Where Spark looks for data sources by itself: top-level modules named pyspark_..., with a DefaultSource in them."""

from __future__ import annotations

from penstock.pipelines.spark_catalog.source import CatalogDataSource as DefaultSource

__all__ = ["DefaultSource"]
