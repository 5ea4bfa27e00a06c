"""Setup: choose a provider, its key and a model, see the model answer, and start with it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from nexus import config, config_file, secrets
from nexus.app import App
from nexus.broker.agent import providers
from nexus.broker.agent.knowledge import concerns, facts
from nexus.broker.agent.providers import PROVIDERS, Choice, Offer, Provider
from nexus.broker.budgets import Budgets
from nexus.config import Config, ProviderConfig
from nexus.errors import MissingError, ModelError, ModelFileError, NexusError, UsageError
from nexus.gateway.dashboard.render import Form, get, page, post, read_form, redirect
from nexus.gateway.dependencies import served_by
from nexus.gateway.errors import status_of
from nexus.settings import refuse_credentials

Tell = Callable[[dict[str, str]], None]
_SAME: Final = "same"
_NOBODY: Final = "none"


async def show_setup(request: Request, app: App) -> Response:
    """Show the providers, or the questions about the one that was chosen; what to do next at the end."""
    _require_restart(request)
    if request.query_params.get("done"):
        from nexus.roles.memory_writer import describe_cost

        # What was saved may not run yet: the home is being opened again.
        saved = await asyncio.to_thread(config.load, app.home.config_file)
        told = describe_cost(saved)
        if saved.models.manager:
            told = told.replace(f"{saved.models.manager[0]} writes", "It also writes", 1)
        return await page(request, "setup_done.html", active=None, models=saved.models, writer=told)
    name = request.query_params.get("provider", "")
    if name:
        return await _show_questions(request, app, _find_provider(name))
    found = await asyncio.to_thread(providers.found, app.config)
    return await page(
        request,
        "setup.html",
        active=None,
        found=found,
        groups=_group_providers(),
        current=app.config.models.manager,
    )


async def list_models(request: Request, app: App) -> Response:
    """List the models of the server whose address or key was typed."""
    _require_restart(request)  # a host asks no server for its homes
    given = await read_form(request)
    provider = _find_provider(given.text("provider"))
    offers, problem = await _load_offers(app, provider, given)
    return await page(
        request, "part_models.html", offers=offers, problem=problem, provider=provider, chosen=""
    )


async def test_models(request: Request, app: App) -> Response:
    """Try the chosen models; what happens is sent line by line, as JSON."""
    _require_restart(request)
    given = await read_form(request)
    return StreamingResponse(_follow(app, given), media_type="application/x-ndjson")


async def save_choice(request: Request, app: App) -> Response:
    """Write the choice to config.toml, test it first unless that was done, and start with it."""
    restart = _require_restart(request)
    given = await read_form(request)
    provider = _find_provider(given.text("provider"))
    try:
        choice = await _read_choice(app, provider, given)
        if not given.text("tested"):
            await _try(app, choice, lambda _: None)
        await asyncio.to_thread(_write, app, choice)
        restart()
    except NexusError as error:
        return await _show_questions(request, app, provider, given, error)
    return redirect("/setup?done=1")


def _write(app: App, choice: Choice) -> None:
    changes = list(choice.keep_key(app.home).changes(config.load(app.home.config_file, {})))
    if changes:
        config_file.save(app.home.config_file, changes)


def _require_restart(request: Request) -> Callable[[], None]:
    restart = served_by(request).restart
    if restart is None:
        raise MissingError("This home is set up by its host", hint="Change the models under Settings.")
    return restart


def _find_provider(name: str) -> Provider:
    if name not in PROVIDERS or name == "none":
        raise UsageError(f"Unknown provider `{name:.40}`", hint="Choose one of the list.")
    return PROVIDERS[name]


def _group_providers() -> dict[str, list[Provider]]:
    own = [each for each in PROVIDERS.values() if each.is_local or each.name == "builtin"]
    hosted = [each for each in PROVIDERS.values() if each not in own and each.name != "none"]
    return {"With an API key": hosted, "On this machine or your own server": own}


async def _show_questions(
    request: Request,
    app: App,
    provider: Provider,
    given: Form | None = None,
    error: NexusError | None = None,
) -> Response:
    known = app.config.providers.get(provider.name, ProviderConfig())
    given = given or Form([("base_url", known.base_url if provider.is_local else "")])
    offers, problem = await _load_offers(app, provider, given)
    return await page(
        request,
        "setup_model.html",
        status_of(error) if error else 200,
        active=None,
        provider=provider,
        offers=offers,
        problem=problem,
        error=error,
        base_url=given.text("base_url"),
        asks_address=provider.is_local or provider.has_own_address,
        chosen=given.text("model"),
        other=given.text("other"),
        key=await asyncio.to_thread(providers.key_found, known),
        writer=provider.models.get("writer", "") if not provider.is_local else "",
    )


async def _load_offers(app: App, provider: Provider, given: Form) -> tuple[list[Offer], NexusError | None]:
    if provider.is_local and not given.text("base_url"):
        return [], None
    try:
        _, known = _make_section(app.config, provider, given.text("base_url"))
        key = given.text("key")
        if not key and provider.is_local and (source := providers.key_found(known)):
            key = await asyncio.to_thread(secrets.read, source)
        return await asyncio.to_thread(providers.offers, app.config, provider, known, key), None
    except NexusError as error:
        return [], error


def _make_section(settings: Config, provider: Provider, url: str) -> tuple[str, ProviderConfig]:
    known = settings.providers.get(provider.name)
    if url:
        if not url.startswith(("http://", "https://")):
            raise UsageError("The server URL doesn't start with http:// or https://")
        refuse_credentials(url, "Server URL")
    if known is not None:
        return provider.name, replace(known, base_url=url or known.base_url)
    if not url:
        raise UsageError("The server URL is missing", hint="Such as http://localhost:8080/v1.")
    return providers.server_section(settings, ProviderConfig(base_url=url))


async def _read_choice(app: App, provider: Provider, given: Form) -> Choice:
    name, known = _make_section(app.config, provider, given.text("base_url"))
    model = given.text("other") or given.text("model")
    if not model:
        raise UsageError("No model chosen", hint="Choose one of the list, or type its name.")
    writer = given.text("writer") or _SAME
    named = {_SAME: f"{name}/{model}", _NOBODY: _NOBODY}
    models = {"manager": f"{name}/{model}", "writer": named.get(writer, f"{name}/{writer}")}
    if fast := provider.models.get("fast"):
        models["fast"] = f"{name}/{fast}"
    return Choice(name=name, provider=known, typed_key=given.text("key"), models=models)


async def _try(app: App, choice: Choice, tell: Tell) -> None:
    """Have every chosen model answer, and keep what that showed; an error says why one doesn't."""
    # Imported here, because the providers' libraries take seconds.
    from nexus.broker.agent import trial

    settings, environ = choice.on_trial(app.config)
    account = Budgets(app.ledgers, app.config.budgets)
    async with app.testing_models:
        for name in choice.tried_models:
            if choice.name == "builtin":
                await _install(name.removeprefix("builtin/"), tell)
            tell({"model": name})
            done = await trial.try_model(
                settings,
                name,
                environ,
                on_progress=lambda step: tell({"step": step}),
                on_text=lambda text: tell({"text": text}),
                account=account,
            )
            await trial.keep(app.ledgers.runtime, done)
            seconds = f"Answered in {done.duration_ms / 1000:.1f} s"
            tell({"done": ", ".join([seconds, *facts(done.known)]) + "."})
            for line in concerns(done.known):
                tell({"done": line})


async def _install(name: str, tell: Tell) -> None:
    """Download a model that Nexus runs itself if it is missing."""
    from nexus.broker.agent import builtin

    try:
        await asyncio.to_thread(builtin.weights, name)
    except ModelFileError:
        model, loop, loaded = builtin.BUILTIN[name], asyncio.get_running_loop(), 0

        def advance(count: int) -> None:
            nonlocal loaded
            before, loaded = loaded, loaded + count
            size = model.build.size_bytes
            if 100 * before // size != 100 * loaded // size:
                step = f"downloading {model.name}: {100 * loaded // size} % of {size / 1e9:.1f} GB"
                loop.call_soon_threadsafe(tell, {"step": step})

        await asyncio.to_thread(lambda: model.pull(told=advance))


async def _follow(app: App, given: Form) -> AsyncIterator[str]:
    lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    async def work() -> None:
        try:
            choice = await _read_choice(app, _find_provider(given.text("provider")), given)
            await _try(app, choice, lines.put_nowait)
            lines.put_nowait({"ready": True})
        except NexusError as error:
            lines.put_nowait({"failed": error.message, "hint": error.hint})
        except Exception as error:
            wrapped = ModelError(f"The test failed: {type(error).__name__}", hint="See `nexus logs`.")
            lines.put_nowait({"failed": wrapped.message, "hint": wrapped.hint})
            raise
        finally:
            lines.put_nowait(None)

    working = asyncio.create_task(work())
    try:
        while (line := await lines.get()) is not None:
            yield json.dumps(line, ensure_ascii=False) + "\n"
    finally:
        working.cancel()
        with suppress(BaseException):
            await working


ROUTES = (
    get("/setup", show_setup),
    post("/setup", save_choice),
    post("/setup/models", list_models),
    post("/setup/test", test_models),
)
