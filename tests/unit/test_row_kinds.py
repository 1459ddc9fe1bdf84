from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.row_kinds import DELETE, INSERT, KIND_TEXTS, UPDATE_AFTER, UPDATE_BEFORE, is_retract, kind_texts


def test_numbers_are_those_of_paimon_data_files() -> None:
    assert (INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE) == (0, 1, 2, 3)


def test_texts_follow_the_numbers() -> None:
    kinds = pa.array([DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE], pa.int8())
    assert kind_texts(kinds).to_pylist() == ["-D", "+I", "+U", "-U"]
    assert KIND_TEXTS[DELETE] == "-D"


def test_old_rows_of_updates_and_deletes_are_retracts() -> None:
    kinds = np.array([INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE], np.int8)
    assert is_retract(kinds).tolist() == [False, True, False, True]
    assert is_retract(kinds[:0]).tolist() == []
