"""Voice notes: what was said in a recording, by an engine on this machine or a provider.

Recordings are strangers' files: they are decoded and transcribed in the sandbox, a minute at a time, so that
each minute has limits of its own and the run can say how far it is. `speech` is the program in there.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from nexus import attachments, bubblewrap, extras, secrets
from nexus.attachments import Attachment
from nexus.broker.tools.sandbox import Grant, Limits, Sandbox
from nexus.config import Config, VoiceConfig
from nexus.errors import ModelFileError, NexusError, UsageError
from nexus.home import Home
from nexus.memory.embedding.files import pulled_folder
from nexus.voice import speech

ENGINES: Final = {"moonshine": ("voice", "moonshine_voice"), "whisper": ("whisper", "faster_whisper")}
"""What transcribes on this machine: the extra that brings it, and the module."""
_WHISPER_FILES: Final = ("config.json", "model.bin", "tokenizer.json")
_WINDOW_S: Final = 60
_REST_S: Final = 5
# Several times what a minute of speech takes on a slow machine.
_LIMITS: Final = Limits(
    timeout_ms=900_000,
    cpu_seconds=180,
    memory_bytes=2 * 1024**3,
    processes=64,
    temporary_bytes=16 * 1024**2,
    output_bytes=1024 * 1024,
)
_MOST_CHARACTERS: Final = 200_000
_OPENAI: Final = "https://api.openai.com/v1"


@dataclass(frozen=True, kw_only=True)
class _Part:
    """What was said up to a time."""

    words: str
    until_s: float
    is_over: bool
    length_s: float
    """Of the whole recording, as it says itself; 0 if it doesn't."""


async def transcribe(
    home: Home, config: Config, recording: Attachment, tell: Callable[[str], None] = lambda doing: None
) -> str:
    """Return what is said in a recording. UsageError, with the reason in words, if that can't be known."""
    settings = config.voice
    if not settings.model:
        raise UsageError("voice notes are not transcribed here", hint="Set `model` below [voice].")
    data = await asyncio.to_thread(attachments.read, home, recording)
    if data is None:
        raise UsageError("it was deleted")
    tell(f"transcribing {recording.name}")
    try:
        if settings.model.partition("/")[0] in ENGINES:
            words = await _transcribe_here(home, settings, recording, data, tell)
        else:
            words = await _ask_provider(config, recording, data)
    except UsageError:
        raise
    except NexusError as error:
        raise UsageError(error.message, hint=error.hint) from error
    if not words:
        raise UsageError("no speech was recognized in it")
    return words[:_MOST_CHARACTERS]


def find_problem(config: Config) -> NexusError | None:
    """Find what keeps voice notes from being transcribed; None if nothing does, or nobody is to."""
    if not config.voice.model:
        return None
    try:
        if config.voice.model.partition("/")[0] in ENGINES:
            _find_engine(config.voice)
        else:
            _find_provider(config)
    except NexusError as error:
        return error
    return None


async def _transcribe_here(
    home: Home, settings: VoiceConfig, recording: Attachment, data: bytes, tell: Callable[[str], None]
) -> str:
    engine, folder = await asyncio.to_thread(_find_engine, settings)
    program, grants = bubblewrap.python_program(speech.__file__)
    if folder is not None:
        grants = (*grants, Grant(path=folder))
    sandbox = Sandbox(grants=grants, limits=_LIMITS, cgroup=home.cgroup)
    said: list[str] = []
    at_s, most_s = 0.0, settings.max_minutes * 60.0
    while True:
        window_s = min(_WINDOW_S, most_s - at_s)
        asked = [engine, str(folder or ""), settings.language, recording.media_type, str(at_s), str(window_s)]
        try:
            part = await _run(sandbox, [*program, *asked, *bubblewrap.package_folders()], data)
        except UsageError as error:
            if not said:
                raise
            said.append(f"[The rest can't be transcribed: {error.message}]")
            break
        said += [part.words] if part.words else []
        # What doesn't move on would never end.
        if part.is_over or part.until_s <= at_s:
            break
        at_s = part.until_s
        # Each window is cut in its last quarter: the end is approached and not met.
        if at_s >= most_s - _REST_S:
            said += [f"[Only the first {settings.max_minutes} min were transcribed]"] if said else []
            break
        whole = f" of {part.length_s / 60:.0f}" if part.length_s > at_s else ""
        tell(f"transcribing {recording.name}: {at_s / 60:.0f}{whole} min")
    return "\n".join(said)


async def _run(sandbox: Sandbox, command: list[str], data: bytes) -> _Part:
    outcome = await sandbox.run(command, stdin=data)
    if outcome.killed_by:
        raise UsageError(f"transcribing it took too much ({outcome.killed_by})")
    try:
        told: dict[str, Any] = {"error": "the engine failed over it"}
        told = json.loads(outcome.stdout) if outcome.exit_code == 0 else told
        if "error" in told:
            raise UsageError(str(told["error"]))
        return _Part(**told)
    except (ValueError, TypeError) as error:
        raise UsageError("the engine failed over it") from error


def _find_engine(settings: VoiceConfig) -> tuple[str, Path | None]:
    """Return the engine of the settings, and the folder of its model unless its package has that."""
    engine, _, model = settings.model.partition("/")
    extra, module = ENGINES[engine]
    extras.require(extra, "Transcribing voice notes", modules=("av", module))
    if engine == "moonshine":
        return engine, None
    folder = Path(model).expanduser() if "/" in model else pulled_folder() / f"whisper-{model}"
    if not all((folder / name).is_file() for name in _WHISPER_FILES):
        raise ModelFileError(
            f"The model whisper-{model} is not installed",
            hint=f"Download a model for faster-whisper to {folder}, or set `model` below [voice] to "
            "`whisper/` and the path of its folder.",
        )
    return engine, folder.resolve()


def _find_provider(config: Config) -> tuple[str, dict[str, str], str]:
    """Return where a provider transcribes, what it is to be sent along, and its model. Reads the key."""
    name, _, model = config.voice.model.partition("/")
    provider = config.providers.get(name)
    if provider is None or not model or provider.kind != "openai":
        raise UsageError(
            f"{config.voice.model} can't transcribe voice notes",
            hint="Set `model` below [voice] to `moonshine/tiny-en`, `whisper/base`, or a model of a provider "
            "of kind `openai`.",
        )
    address = secrets.address(provider.base_url or _OPENAI)
    headers = {key: _read_header(value) for key, value in provider.headers.items()}
    if source := provider.auth_token or provider.api_key:
        headers.setdefault("Authorization", f"Bearer {secrets.read(source)}")
    return f"{(address.plain or '').rstrip('/')}/audio/transcriptions", headers, model


def _read_header(text: str) -> str:
    source = secrets.source_in(text)
    return text.removesuffix(source) + secrets.read(source) if source else text


async def _ask_provider(config: Config, recording: Attachment, data: bytes) -> str:
    url, headers, model = await asyncio.to_thread(_find_provider, config)
    provider = config.voice.model.partition("/")[0]
    fields = {"model": model, "response_format": "json"}
    if config.voice.language:
        fields["language"] = config.voice.language
    # Services go by the end of the name.
    name = f"recording.{speech.FORMATS.get(recording.media_type, ('', 'ogg'))[1]}"
    transport = httpx.AsyncHTTPTransport(retries=2)
    timeout = httpx.Timeout(config.providers[provider].timeout_ms / 1000, connect=10)
    try:
        async with httpx.AsyncClient(transport=transport, timeout=timeout, headers=headers) as client:
            answer = await client.post(url, data=fields, files={"file": (name, data, recording.media_type)})
            answer.raise_for_status()
            return str(answer.json()["text"]).strip()
    except httpx.HTTPStatusError as error:
        raise UsageError(f"{provider} answered {error.response.status_code}") from error
    except httpx.HTTPError as error:
        raise UsageError(f"{provider} can't be reached ({type(error).__name__})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{provider} didn't answer with a transcript") from error
