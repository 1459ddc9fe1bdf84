"""The reply to a create of each verb is wrong, lost or late; `tests/simulation/test_verbs.py` fails everything else."""

from __future__ import annotations

import pytest

from tests.simulation.store import Fault, at
from tests.simulation.verbs import VERBS, VerbPlay


@pytest.mark.parametrize("verb", VERBS)
def test_an_operation_recognises_its_file_after_a_lost_reply(verb: str) -> None:
    play = VerbPlay("append", verb) if verb != "rescale" else VerbPlay("vectors", verb)
    creates = [operation.number for operation in play.operations if operation.name == "create"]
    for number in creates:
        play.run(at(number, Fault.DENIED))
    for number in creates[-1:]:
        play.run(at(number, Fault.LATE))
