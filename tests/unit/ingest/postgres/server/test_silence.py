"""When the wait for an answer ends: not while the server works, and not after a single doubt."""

from __future__ import annotations

import pytest

from penstock.errors import SourceError
from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.postgres.server.silence import ServerRefused, Silence, doubt


def test_the_wait_ends_after_two_doubts_in_a_row() -> None:
    answers = iter(["late", None, "gone", "gone"])
    silence = Silence(lambda: next(answers), 0.0)
    for _ in range(3):
        silence.lasts()
    with pytest.raises(ServerRefused, match="gone"):
        silence.lasts()


def test_a_doubt_is_confirmed_sooner_than_the_first_question_comes() -> None:
    """A changed length asks for bytes that the server does not have, and a server that is idle sends none."""
    silence = Silence(lambda: "idle", 60.0)
    silence._since -= 60
    silence.lasts()
    assert silence.left_s < 11
    silence._since -= 11
    with pytest.raises(ServerRefused, match="idle"):
        silence.lasts()


def test_bytes_that_arrive_end_the_doubt() -> None:
    silence = Silence(lambda: "late", 0.0)
    for _ in range(5):
        silence.lasts()
        silence.ended()


def test_the_server_gets_no_question_before_the_time_is_over() -> None:
    Silence(lambda: pytest.fail("asked"), 3600.0).lasts()


def test_a_limit_ends_the_wait_for_a_server_that_may_be_at_work() -> None:
    silence = Silence(lambda: None, 0.0, most_s=3600.0)
    for _ in range(5):
        silence.lasts()
    with pytest.raises(ServerRefused, match="answer-timeout"):
        Silence(lambda: None, 3600.0, most_s=0.0).lasts()


def test_statements_of_no_duration_have_a_limit() -> None:
    with pytest.raises(ServerRefused, match="does not answer"):
        Silence.at_most(0.0).lasts()


@pytest.mark.parametrize(
    ("state", "is_doubted"),
    [
        (("active", None), False),
        (("active", "ClientWrite"), True),
        (("active", "DataFileRead"), False),
        (("idle", "ClientRead"), True),
        (("idle in transaction", "ClientRead"), True),
        (("disabled", None), False),
        ((None, None), False),
    ],
)
def test_a_process_that_works_is_waited_for(state: tuple[str | None, str | None], *, is_doubted: bool) -> None:
    assert (doubt(lambda _: (8, ["8", "7", *state]), "h:1/d", 7) is not None) is is_doubted


def test_a_process_that_has_ended_sends_nothing() -> None:
    assert doubt(lambda _: (8, ["8", None, None, None]), "h:1/d", 7) == "the server has no process 7 any more"


def test_a_pooler_that_hides_processes_is_no_doubt() -> None:
    assert doubt(lambda _: (1234, ["8", None, None, None]), "h:1/d", 7) is None


def test_a_server_that_refuses_another_connection_is_there() -> None:
    def refuse(reason: str, kind: type[SourceError] = ConnectionLost) -> str | None:
        def ask(_: str) -> tuple[int, list[str | None]]:
            raise kind("no connection", reason=reason)

        return doubt(ask, "h:1/d", 7)

    assert refuse("connection to server failed: FATAL:  sorry, too many clients already") is None
    assert refuse("connection to server failed: ВАЖНО:  извините, уже слишком много клиентов") is None
    assert refuse("password", SourceError) is None
    assert refuse("Connection refused") == "another connection fails too: Connection refused"


def test_a_pooler_without_a_free_connection_is_no_doubt() -> None:
    def ask(_: str) -> tuple[int, list[str | None]]:
        with pytest.raises(ServerRefused) as caught:
            Silence.at_most(0.0).lasts()
        raise ConnectionLost("lost", reason=caught.value.text)

    assert doubt(ask, "h:1/d", 7) is None
