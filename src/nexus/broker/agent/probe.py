"""What a server says about a model: llama.cpp's `/props`, Ollama's `/api/show`, or the list of models."""

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from nexus.broker.agent.clients.client import Opening
from nexus.ledgers.runtime.models import Capabilities

if TYPE_CHECKING:
    import httpx

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


async def probe(opening: Opening, model: str) -> Capabilities | None:
    """What the server says; None where nobody answers."""
    import httpx

    from nexus.broker.agent.tls import trusted

    base = (opening.base_url or "").rstrip("/")
    root = base.removesuffix("/v1")
    key = opening.auth_token or opening.api_key
    headers = {**opening.headers, **({"authorization": f"Bearer {key}"} if key else {})}
    async with httpx.AsyncClient(
        headers=headers,
        params=dict(opening.query or {}),
        timeout=_LOOK_S,
        trust_env=False,
        verify=trusted(),
    ) as client:
        props, show, running, listed, detailed = await asyncio.gather(
            _asked(client, "GET", f"{root}/props"),
            _asked(client, "POST", f"{root}/api/show", {"model": model}),
            _asked(client, "GET", f"{root}/api/ps"),
            _asked(client, "GET", f"{base}/models"),
            _asked(client, "GET", f"{root}/api/v0/models"),
        )
    if all(answer is None for answer in (props, show, listed)):
        return None
    if found := _of_llama_cpp(props or {}):
        return found
    if show and "model_info" in show:
        return _of_ollama(show, _entry(running or {}, "models", model))
    return _listed(_entry(detailed or {}, "data", model) or _entry(listed or {}, "data", model))


async def _asked(
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


def _listed(entry: dict[str, Any]) -> Capabilities:
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
