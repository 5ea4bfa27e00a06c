"""A trial of a model: what it can do is found out over HTTP, kept, and used."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_runs import Run
from new_homes import new_home
from nexus.broker.agent import trial
from nexus.broker.agent.knowledge import Knowledge
from nexus.broker.agent.models import Models
from nexus.config import Config, LedgersConfig, ProviderConfig
from nexus.errors import ModelError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime.models import Capabilities
from nexus.testing import PROFILES, HttpError, ModelRequest, ModelServer, Pace, Profile, Turn
from trials import able

NAME = "server/small"


def _config(server: ModelServer, **provider: Any) -> Config:
    return Config(providers={"server": ProviderConfig(base_url=server.openai_url, **provider)})


async def _tried(profile: Profile) -> tuple[trial.Trial, ModelServer]:
    with ModelServer(profile=profile) as server:
        server.always(able)
        return await trial.try_model(_config(server), NAME, {}), server


@pytest.mark.parametrize("kind", PROFILES)
async def test_every_kind_of_model_is_found_out(kind: str) -> None:
    done, _ = await _tried(PROFILES[kind])
    known = done.known
    assert known.calls_tools
    assert known.writes_json
    assert known.tested_at
    assert known.tool_calls == {"no_tools": "none", "text_calls": "text"}.get(kind)
    assert known.context_tokens == (4_096 if kind == "small_window" else None)
    assert known.slots == {"small_window": 8, "slow_slot": 1}.get(kind)


async def test_speed_is_measured() -> None:
    done, server = await _tried(Profile(pace=Pace(before_ms=400, between_ms=20)))
    question = server.exchanges[0]
    read_s, tokens = 0.4, question.answer.usage.prompt_tokens
    assert done.known.prompt_tokens_per_s is not None
    # Never faster than the server lets it be; how much slower is the machine's affair.
    assert 0 < done.known.prompt_tokens_per_s <= tokens / read_s
    assert done.known.output_tokens_per_s


async def test_a_trial_of_a_model_that_never_answers_ends() -> None:
    with ModelServer(profile=Profile(pace=Pace(before_ms=600_000))) as server:
        server.always(able)
        with pytest.raises(ModelError, match="didn't finish the test"):
            await trial.try_model(_config(server), NAME, {}, limit_s=0.2)


async def test_a_model_that_only_talks_is_said_to_call_no_tools_and_to_write_no_json() -> None:
    with ModelServer() as server:
        server.always("I would rather talk about the weather, which is fine today, and was fine yesterday.")
        done = await trial.try_model(_config(server), NAME, {})
    assert (done.known.calls_tools, done.known.writes_json) == (False, False)


async def test_a_server_that_takes_no_schema_is_asked_in_words_and_that_is_kept() -> None:
    done, server = await _tried(Profile(schemas=False))
    assert done.known.structured_output == "none"
    assert done.known.writes_json
    assert sum("response_format" in request.json for request in server.requests) == 1


async def test_a_server_that_does_not_stream_is_asked_for_whole_answers() -> None:
    done, server = await _tried(Profile(streams=False))
    assert done.known.streams is False
    assert (done.known.calls_tools, done.known.writes_json) == (True, True)
    assert [bool(request.json.get("stream")) for request in server.requests].count(True) == 1


async def test_a_local_server_with_one_place_is_noticed_though_it_does_not_say_so() -> None:
    class Mute(Profile):
        @property
        def is_silent(self) -> bool:
            return True

    done, _ = await _tried(Mute(slots=1, pace=Pace(before_ms=1_500, between_ms=20)))
    assert done.known.slots == 1


async def test_a_server_that_is_loading_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nexus.broker.agent.asking._LOADING_PAUSE_S", 0.01)
    steps: list[str] = []
    with ModelServer() as server:
        server.script(*[HttpError("overloaded", message="Loading model")] * 3)
        server.always(able)
        done = await trial.try_model(_config(server), NAME, {}, on_progress=steps.append)
    assert done.known.calls_tools
    assert steps[:5] == ["question", *["server/small is loading"] * 3, "tool call"]


async def test_a_slow_server_is_given_longer_than_one_in_the_cloud() -> None:
    with ModelServer(profile=Profile(pace=Pace(before_ms=600, between_ms=0))) as server:
        server.always(able)
        # As if the time-out of a hosted provider were shorter than what this server takes.
        config = _config(server)
        done = await trial.try_model(config, NAME, {})
        assert done.known.calls_tools
        short = _config(server, timeout_ms=100)
        with pytest.raises(ModelError, match="no answer within 100 ms"):
            await trial.try_model(short, NAME, {})


async def test_a_model_that_refuses_is_asked_once() -> None:
    with ModelServer(keys=["right"]) as server:
        with pytest.raises(ModelError, match="401"):
            await trial.try_model(_config(server), NAME, {})
        assert len(server.records) <= 6, "the question, and what the server says of itself"


async def test_a_trial_takes_the_place_of_what_was_known(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    with ModelServer(profile=PROFILES["text_calls"]) as server:
        server.always(able)
        config = _config(server)
        async with (
            Ledgers(home, LedgersConfig()) as open_,
            Models(config, {}, Knowledge(open_.runtime)) as models,
        ):
            (candidate,) = await models.candidates((NAME,))
            old = Capabilities(structured_output="none", context_tokens=99, streams=False)
            await models.knowledge.learn(candidate, old)
            await trial.keep(open_.runtime, await trial.try_model(config, NAME, {}))
            known = await models.capabilities(NAME)
    assert known == replace(known, structured_output=None, context_tokens=None, streams=None)
    assert (known.tool_calls, known.calls_tools, known.writes_json) == ("text", True, True)


async def test_whole_answers_are_shown_and_billed(tmp_path: Path) -> None:
    with ModelServer(profile=Profile(streams=False)) as server:
        server.always(_thanks)
        run = Run(server, tmp_path, wire="openai", tools=())
        assert (await run()).text == "You are welcome."
        text = "".join(delta.text for delta in await run.deltas() if delta.kind == "text")
        assert text == "You are welcome."
        assert run.journal.attempts[-1].output_tokens == server.exchanges[-1].answer.usage.output_tokens


def _thanks(request: ModelRequest) -> Turn:
    return Turn("You are welcome.")
