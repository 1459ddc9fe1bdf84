"""The clocks of writers of ORC files."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

from penstock.table.files.orc.timestamps import EPOCH_2015, WriterClock


@pytest.mark.parametrize(("instant", "hour"), [(datetime(2300, 7, 1), 2), (datetime(2300, 1, 1), 1)])
def test_summers_after_2037_have_the_clock_of_the_writer(instant: datetime, hour: int) -> None:
    """Arrow's tables of zones end with 2037, so that these were an hour behind in a file with years beyond 2262."""
    seconds = int((instant - datetime(1970, 1, 1)).total_seconds())
    start = EPOCH_2015 - 3600  # the midnight of Berlin
    found = WriterClock("Europe/Berlin", is_java=True).moments(
        pa.array([seconds - start]), pa.array(np.array([EPOCH_2015 * 10**9])), pa.timestamp("us"), "t"
    )
    assert found.to_pylist() == [instant.replace(hour=hour)]
