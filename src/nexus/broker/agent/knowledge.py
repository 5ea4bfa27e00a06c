"""What is known of models: what the catalog says, over it what the server says, over it what was learned."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from nexus.broker.agent.builtin import CONTEXT_TOKENS
from nexus.broker.agent.clients import Opening, ssl_context
from nexus.ledgers.runtime import models
from nexus.ledgers.runtime.models import Capabilities

if TYPE_CHECKING:
    import httpx

    from nexus.broker.agent.models import Candidate
    from nexus.broker.agent.records import Attempt
    from nexus.ledgers import Database


# What is too short to measure by, and how far off an earlier measure must be to be replaced.
_LEAST_PROMPT_TOKENS: Final = 200
_LEAST_OUTPUT_TOKENS: Final = 16
_LEAST_S: Final = 0.05
_OFF: Final = 0.3
_LOOK_S: Final = 2.0
# What Ollama gives a model where nothing else is set; it cuts longer prompts off without a word.
_OLLAMA_CONTEXT: Final = 4_096
# By whom each is used: vLLM, LM Studio (what is loaded first), OpenRouter, Groq, Mistral.
_WINDOWS: Final = (
    "max_model_len",
    "loaded_context_length",
    "context_length",
    "context_window",
    "max_context_length",
)


def facts(known: Capabilities) -> Iterator[str]:
    """What is known of a model, a few words each."""
    if known.context_tokens:
        yield f"context window {known.context_tokens:,} tokens"
    if known.calls_tools is not None or known.tool_calls is not None:
        yield _tools(known)
    if known.writes_json is not None:
        yield "JSON answers" if known.writes_json else "no JSON answers"
    if known.images:
        yield "reads images"
    if known.streams is False:
        yield "not streamed"
    if known.prompt_tokens_per_s:
        yield f"reads {_speed(known.prompt_tokens_per_s)}"
    if known.output_tokens_per_s:
        yield f"writes {_speed(known.output_tokens_per_s)}"
    if known.slots:
        yield f"{known.slots} request{'s' * (known.slots != 1)} at a time"


def concerns(known: Capabilities) -> Iterator[str]:
    """What of that limits the agent, and what to do."""
    if known.calls_tools is False:
        yield "It didn't call a tool when asked to, so it may be unable to use files, the memory or workers."
    if known.writes_json is False:
        yield "It gave no valid JSON when asked to. If the memory stays empty, choose another `writer`."


def _tools(known: Capabilities) -> str:
    if known.calls_tools is False:
        return "no tool calls"
    how = {"text": " (as text)", "none": " (described in words)"}.get(known.tool_calls or "", "")
    return f"tool calls{how}"


def _speed(tokens_per_s: float) -> str:
    return f"{tokens_per_s:,.0f} tokens/s" if tokens_per_s >= 10 else f"{tokens_per_s:.1f} tokens/s"


class Knowledge:
    """What a home knows of its models. Without a ledger it is kept for as long as the process lives."""

    def __init__(self, database: "Database | None" = None) -> None:
        self._database = database
        self._learned: dict[str, Capabilities] = {}
        self._asking = asyncio.Lock()
        self._asked: set[str] = set()
        self._listed: dict[tuple[str, str], Capabilities] = {}

    async def of(self, candidate: "Candidate") -> Capabilities:
        """Everything that is known of a model. A server of one's own is asked once in each process."""
        if candidate.config.base_url and candidate.config.kind == "openai":
            async with self._asking:
                if candidate.name not in self._asked:
                    await self._ask(candidate)
        key = candidate.name, _address(candidate)
        if key not in self._listed:
            self._listed[key] = catalog(candidate)
        return (await self.load_learned(candidate)).over(self._listed[key])

    async def _ask(self, candidate: "Candidate") -> None:
        told = await probe(candidate.opening, candidate.model.model_name)
        if told is not None:
            self._asked.add(candidate.name)
            if told.known_fields():
                await self.learn(candidate, told)

    async def learn(self, candidate: "Candidate", learned: Capabilities) -> None:
        """Keep something that was found out about a model."""
        if self._database is not None:
            await self._database.write(
                models.learn, name=candidate.name, address=_address(candidate), learned=learned
            )
        else:
            self._learned[candidate.name] = learned.over(await self.load_learned(candidate))

    async def load_learned(self, candidate: "Candidate") -> Capabilities:
        """What was found out about a model, without what the catalog says."""
        if self._database is None:
            return self._learned.get(candidate.name, Capabilities())
        return await self._database.read_now(models.get, name=candidate.name, address=_address(candidate))


def catalog(candidate: "Candidate") -> Capabilities:
    """What the public list of models says. A server of one's own may give a model any name: it has none."""
    model = candidate.model
    if candidate.config.kind == "builtin":
        return Capabilities(context_tokens=CONTEXT_TOKENS, slots=1)
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, found = get_snapshot().find_provider_model(model.model_name, None, None, _address(candidate))
    except LookupError:
        return Capabilities()
    profile = model.profile
    return Capabilities(
        context_tokens=found.context_window,
        tool_calls="native" if profile.get("supports_tools", True) else "none",
        structured_output="schema" if profile.get("supports_json_schema_output") else None,
        images=profile.get("supports_image_input", True),
        reasoning=profile.get("supports_thinking", False),
    )


def measure(known: Capabilities, attempt: "Attempt", sent_bytes: int) -> Capabilities:
    """What an answer shows about a model's speed and its tokens, where that is news."""
    prompt = attempt.input_tokens + attempt.cache_read_tokens + attempt.cache_write_tokens
    first_s = (attempt.first_delta_ms or 0.0) / 1000
    rest_s = attempt.duration_ms / 1000 - first_s
    return Capabilities(
        bytes_per_token=_news(known.bytes_per_token, sent_bytes, prompt, prompt >= _LEAST_PROMPT_TOKENS),
        prompt_tokens_per_s=_news(
            known.prompt_tokens_per_s,
            attempt.input_tokens,
            first_s,
            attempt.input_tokens >= _LEAST_PROMPT_TOKENS and first_s > _LEAST_S,
        ),
        output_tokens_per_s=_news(
            known.output_tokens_per_s,
            attempt.output_tokens,
            rest_s,
            attempt.output_tokens >= _LEAST_OUTPUT_TOKENS and rest_s > _LEAST_S,
        ),
    )


def _news(before: float | None, much: float, over: float, counts: bool) -> float | None:
    if not counts:
        return None
    now = round(much / over, 2)
    return now if before is None or abs(now - before) > _OFF * before else None


def _address(candidate: "Candidate") -> str:
    return candidate.model.base_url or ""


async def probe(opening: Opening, model: str) -> Capabilities | None:
    """What the server says; None where nobody answers."""
    import httpx

    base = (opening.base_url or "").rstrip("/")
    root = base.removesuffix("/v1")
    key = opening.auth_token or opening.api_key
    headers = {**opening.headers, **({"authorization": f"Bearer {key}"} if key else {})}
    async with httpx.AsyncClient(
        headers=headers,
        params=dict(opening.query or {}),
        timeout=_LOOK_S,
        trust_env=False,
        verify=ssl_context(),
    ) as client:
        props, show, running, listed, detailed = await asyncio.gather(
            _get_json(client, "GET", f"{root}/props"),
            _get_json(client, "POST", f"{root}/api/show", {"model": model}),
            _get_json(client, "GET", f"{root}/api/ps"),
            _get_json(client, "GET", f"{base}/models"),
            _get_json(client, "GET", f"{root}/api/v0/models"),
        )
    if all(answer is None for answer in (props, show, listed)):
        return None
    if found := _of_llama_cpp(props or {}):
        return found
    if show and "model_info" in show:
        return _of_ollama(show, _entry(running or {}, "models", model))
    return _read_listing(_entry(detailed or {}, "data", model) or _entry(listed or {}, "data", model))


async def _get_json(
    client: "httpx.AsyncClient", method: str, url: str, body: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """An answer; an empty one where the server has none, None where there is no server."""
    import httpx

    try:
        answer = await client.request(method, url, json=body)
    except httpx.HTTPError:
        return None
    try:
        value: Any = answer.json() if answer.is_success else {}
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _of_llama_cpp(props: dict[str, Any]) -> Capabilities | None:
    settings = props.get("default_generation_settings")
    if not isinstance(settings, dict):
        return None
    modalities = cast("dict[str, Any]", props.get("modalities") or {})
    return Capabilities(
        context_tokens=_whole(cast("dict[str, Any]", settings).get("n_ctx")),
        slots=_whole(props.get("total_slots")),
        structured_output="schema",
        images=bool(modalities.get("vision")),
    )


def _of_ollama(show: dict[str, Any], running: dict[str, Any]) -> Capabilities:
    info = cast("dict[str, Any]", show["model_info"])
    most = next((_whole(value) for key, value in info.items() if key.endswith(".context_length")), None)
    told = re.search(r"^num_ctx\s+(\d+)", str(show.get("parameters", "")), re.MULTILINE)
    window = _whole(running.get("context_length")) or (int(told[1]) if told else None)
    can = set(map(str, cast("list[Any]", show.get("capabilities") or [])))
    return Capabilities(
        context_tokens=window or min(most or _OLLAMA_CONTEXT, _OLLAMA_CONTEXT),
        tool_calls=None if "tools" in can or not can else "none",
        structured_output="schema",
        images="vision" in can,
        reasoning="thinking" in can,
        slots=1,
    )


def _read_listing(entry: dict[str, Any]) -> Capabilities:
    window = next((size for name in _WINDOWS if (size := _whole(entry.get(name)))), None)
    takes: Any = entry.get("supported_parameters")
    if not isinstance(takes, list):
        return Capabilities(context_tokens=window)
    can = set(map(str, cast("list[Any]", takes)))
    shape = "schema" if "structured_outputs" in can else "json" if "response_format" in can else "none"
    inputs: Any = cast("dict[str, Any]", entry.get("architecture") or {}).get("input_modalities")
    return Capabilities(
        context_tokens=window,
        tool_calls=None if "tools" in can else "none",
        structured_output=shape,
        images="image" in (inputs or ()),
        reasoning="reasoning" in can,
    )


def _entry(answer: dict[str, Any], key: str, model: str) -> dict[str, Any]:
    """The model's own entry of a list."""
    entries: Any = answer.get(key)
    if not isinstance(entries, list):
        return {}
    found = [cast("dict[str, Any]", entry) for entry in cast("list[Any]", entries) if isinstance(entry, dict)]
    named = [entry for entry in found if model in (entry.get("id"), entry.get("model"))]
    return named[0] if named else {}


def _whole(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None
