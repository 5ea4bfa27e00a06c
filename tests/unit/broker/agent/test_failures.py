"""Every failure of a model, in both wire formats: right outcome, right number of requests, right bill."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError

from agent_runs import KEY, Run
from nexus.broker.agent import asking
from nexus.broker.agent.errors import describe
from nexus.broker.agent.records import Limits
from nexus.errors import ModelError, ModelRefusedError
from nexus.testing import (
    BrokenEvent,
    Cut,
    Drip,
    ErrorEvent,
    HttpError,
    ModelServer,
    Silence,
    Stall,
    Step,
    ToolCall,
    Turn,
    failures,
)

LONG = "A text of more than one piece, so that it can break in its middle."
BOTH = ("anthropic/claude-opus-5", "openai/gpt-4.1")

REFUSED_FOR_NOW: dict[str, Step] = {
    "rate limit": failures.rate_limited(retry_after_ms=150, form="milliseconds"),
    "overloaded": failures.overloaded(),
    "server error": failures.server_error(),
    "a proxy's page": HttpError("server", status=502, body="<html>Bad gateway</html>"),
    "closed without a word": Silence(),
    "not a moment too late": HttpError("timeout"),
}
BROKEN: dict[str, Any] = {
    "cut": Cut(after_deltas=2),
    "not JSON": BrokenEvent(after_deltas=2),
    "error event": ErrorEvent(after_deltas=2),
    "stall": Stall(ms=60_000, after_deltas=2),
}
REFUSED: dict[str, Step] = {
    "key": failures.unauthorized(),
    "quota": failures.out_of_quota(),
    "permission": HttpError("permission"),
    "unknown model": HttpError("not_found"),
    "bad request": HttpError("invalid_request", message="the request is wrong"),
    "context": failures.context_exceeded(),
}


@pytest.mark.parametrize("failure", REFUSED_FOR_NOW.values(), ids=REFUSED_FOR_NOW)
async def test_a_model_that_is_busy_is_asked_again(
    made: Callable[..., Run], server: ModelServer, failure: Step
) -> None:
    server.script(failure, LONG)
    run = made()
    assert (await run()).text == LONG
    assert len(server.requests) == 2
    assert [attempt.error is None for attempt in run.journal.attempts] == [False, True]
    assert run.journal.bill == run.server_bill
    server.assert_exhausted()


@pytest.mark.parametrize("fault", BROKEN.values(), ids=BROKEN)
async def test_what_came_of_an_answer_that_breaks_is_withdrawn(
    made: Callable[..., Run], server: ModelServer, fault: Any
) -> None:
    server.script(Turn(LONG, faults=[fault]), "A whole answer.")
    run = made(provider={"stall_ms": 1_500 if isinstance(fault, Stall) else 60_000})
    assert (await run()).text == "A whole answer."
    deltas = await run.deltas()
    kinds = [delta.kind for delta in deltas]
    restart = kinds.index("restart")
    assert "text" in kinds[:restart], "the test should break an answer that was being shown"
    assert "".join(d.text for d in deltas[restart:] if d.kind == "text") == "A whole answer."
    assert len(server.requests) == 2


@pytest.mark.parametrize("fault", BROKEN.values(), ids=BROKEN)
async def test_an_answer_that_broke_is_on_the_bill(
    made: Callable[..., Run], server: ModelServer, fault: Any
) -> None:
    server.script(Turn(LONG, faults=[fault]), "A whole answer.")
    run = made(provider={"stall_ms": 1_500 if isinstance(fault, Stall) else 60_000})
    await run()
    broken, whole = run.journal.attempts
    assert (broken.estimated, whole.estimated) == (True, False)
    if isinstance(fault, BrokenEvent):  # behind which the server goes on, and nobody reads
        assert broken.input_tokens == server.exchanges[0].answer.usage.input_tokens
    else:
        assert run.journal.bill == run.server_bill


async def test_an_answer_that_broke_and_was_never_whole_is_estimated(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.script(Turn(LONG, faults=[Cut(after_deltas=2)]))
    run = made(provider={"max_retries": 0}, system_prompt="You are a patient assistant. " * 40)
    with pytest.raises(ModelError):
        await run()
    assert "restart" not in [delta.kind for delta in await run.deltas()], "nobody is asked again"
    (broken,) = run.journal.attempts
    told = broken.input_tokens + broken.cache_write_tokens
    assert told == pytest.approx(server.exchanges[0].answer.usage.prompt_tokens, rel=0.2)
    assert broken.output_tokens == server.exchanges[0].answer.usage.output_tokens


async def test_an_answer_that_drips_is_waited_for(made: Callable[..., Run], server: ModelServer) -> None:
    server.script(Turn("Grüße aus Zürich, 🏔️ und Schnee.", faults=[Drip(delay_ms=1)]))
    run = made(provider={"stall_ms": 5_000})
    assert (await run()).text == "Grüße aus Zürich, 🏔️ und Schnee."
    assert len(server.requests) == 1


async def test_a_model_that_does_not_begin_is_given_up_after_its_time(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.script(Turn(LONG, faults=[Stall(ms=60_000)]))
    server.always("Here I am.")
    run = made(provider={"timeout_ms": 1_500})
    assert (await run()).text == "Here I am."
    assert "no answer within 1500 ms" in (run.journal.attempts[0].error or "")


@pytest.mark.parametrize("form", ["seconds", "milliseconds"])
async def test_the_time_that_a_provider_names_is_waited_out(
    made: Callable[..., Run], server: ModelServer, form: Any
) -> None:
    server.script(failures.rate_limited(retry_after_ms=1_000, form=form), "At last.")
    began = time.monotonic()
    assert (await made()()).text == "At last."
    assert time.monotonic() - began >= 1.0


async def test_a_long_time_is_not_waited_for_where_another_model_can_be_asked(
    made: Callable[..., Run], server: ModelServer, wire: str
) -> None:
    first, second = BOTH if wire == "anthropic" else reversed(BOTH)
    server.when(model=first.partition("/")[2]).script(failures.rate_limited(retry_after_ms=1_200_000))
    server.when(model=second.partition("/")[2]).script("The other one speaks.")
    async with asyncio.timeout(60):
        assert (await made(names=(first, second))()).text == "The other one speaks."
    assert len(server.requests) == 2


async def test_a_time_beyond_the_runs_own_is_not_waited_for(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.script(failures.rate_limited(retry_after_ms=3_600_000))
    with pytest.raises(ModelError, match="429"):
        await made(limits=Limits(timeout_ms=20_000))()
    assert len(server.requests) == 1


@pytest.mark.parametrize("failure", REFUSED.values(), ids=REFUSED)
async def test_a_model_that_refuses_is_not_asked_again_and_the_next_one_answers(
    made: Callable[..., Run], server: ModelServer, wire: str, failure: Step
) -> None:
    first, second = BOTH if wire == "anthropic" else reversed(BOTH)
    server.script(failure, "The other one speaks.")
    run = made(names=(first, second))
    outcome = await run()
    assert outcome.text == "The other one speaks."
    assert outcome.model == second.partition("/")[2]
    assert [request.model for request in server.requests] == [n.partition("/")[2] for n in (first, second)]
    assert run.journal.bill == run.server_bill


async def test_the_next_model_is_asked_when_the_retries_are_used_up(
    made: Callable[..., Run], server: ModelServer, wire: str
) -> None:
    first, second = BOTH if wire == "anthropic" else reversed(BOTH)
    server.when(model=first.partition("/")[2]).always(failures.server_error())
    server.when(model=second.partition("/")[2]).always("The other one speaks.")
    run = made(names=(first, second), provider={"max_retries": 1})
    assert (await run()).text == "The other one speaks."
    assert len(server.requests) == 3


async def test_a_conversation_with_tools_goes_on_with_another_model(
    made: Callable[..., Run], server: ModelServer, wire: str
) -> None:
    first, second = BOTH if wire == "anthropic" else reversed(BOTH)
    call = Turn("Looking.", [ToolCall("weather", {"city": "Bern"})], thinking="Hm.")
    server.when(model=first.partition("/")[2]).script(call, failures.unauthorized())
    server.when(model=second.partition("/")[2]).script(lambda r: f"Found: {r.tool_results[0]}")
    run = made(names=(first, second))
    assert (await run()).text == "Found: Bern: snow"


async def test_when_nobody_answers_each_reason_is_told(made: Callable[..., Run], server: ModelServer) -> None:
    server.when(model="claude-opus-5").always(failures.unauthorized())
    server.when(model="gpt-4.1").always(HttpError("not_found", message="gone for good"))
    with pytest.raises(ModelError) as caught:
        await made(names=BOTH)()
    assert "anthropic/claude-opus-5: 401" in caught.value.message
    assert "openai/gpt-4.1: 404 gone for good" in caught.value.message


async def test_a_model_that_is_away_has_refused_nothing(
    made: Callable[..., Run], server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_FIRST_WAIT_S", 0.004)
    server.when(model="claude-opus-5").always(HttpError("invalid_request", message="the request is wrong"))
    server.when(model="gpt-4.1").always(failures.server_error())
    run = made(names=BOTH, provider={"max_retries": 0}, limits=Limits(outage_ms=4))
    with pytest.raises(ModelError) as caught:
        await run()
    assert len(server.requests) == 4, "both were asked twice"
    assert not isinstance(caught.value, ModelRefusedError)


async def test_a_key_in_a_providers_words_is_masked(made: Callable[..., Run], server: ModelServer) -> None:
    server.script(HttpError("authentication", message=f"the key {KEY} was revoked"))
    run = made()
    with pytest.raises(ModelError) as caught:
        await run()
    kept = f"{caught.value} {run.journal!r} {await run.deltas()!r}"
    assert KEY not in kept
    assert "the key [secret] was revoked" in kept


async def test_of_a_long_page_of_a_proxy_an_excerpt_is_kept(
    made: Callable[..., Run], server: ModelServer
) -> None:
    page = f"<html><style>p {{}}</style><body><p>Bad gateway</p>{'<p>word</p>' * 20_000}</body></html>"
    server.script(HttpError("server", status=502, body=page), "An answer.")
    run = made()
    assert (await run()).text == "An answer."
    error = run.journal.attempts[0].error
    assert error is not None
    assert error.startswith("502 Bad gateway word word")
    assert len(error) < 600


@pytest.mark.parametrize("before", range(500 - len(KEY), 500))
def test_a_key_that_an_excerpt_would_cut_is_masked(before: int) -> None:
    body = f"{'x' * before} {KEY} {'y' * 1000}"
    error = ModelHTTPError(status_code=502, model_name="m", body=body)
    assert KEY[:4] not in describe(error, lambda text: text.replace(KEY, "…"))


async def test_an_address_where_nobody_listens(made: Callable[..., Run], server: ModelServer) -> None:
    run = made(provider={"max_retries": 0})
    server.stop()
    with pytest.raises(ModelError, match="onnect"):
        await run()
    server.start()
