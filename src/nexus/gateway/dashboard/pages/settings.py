"""Settings: change those that are safe in config.toml, test models, and see all that are in force."""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from nexus import config, config_file
from nexus.app import App
from nexus.broker.agent.capabilities import concerns, facts
from nexus.broker.agent.providers import PROVIDERS, key_found, offers
from nexus.broker.budgets import Budgets
from nexus.config import Config
from nexus.errors import ConfigError, NexusError, UsageError
from nexus.gateway.dashboard.endpoint import back, form, get, keys_of, post
from nexus.gateway.dashboard.render import is_part, page
from nexus.gateway.dependencies import served_by
from nexus.gateway.errors import status_of
from nexus.gateway.views import settings, settings_file
from nexus.ledgers.runtime import models
from nexus.ledgers.runtime.models import Capabilities


async def shown(request: Request, app: App) -> Response:
    """The settings. Secrets are not told."""
    return await _page(request, app)


async def save(request: Request, app: App) -> Response:
    """Write the settings of one section to the file."""
    section, given = request.path_params["section"], await form(request)
    values = {name: given.text(name) for name in given.names if name != "seen"}
    try:
        changed = await asyncio.to_thread(settings_file.save, app.home, section, values, given.text("seen"))
    except (ConfigError, UsageError, NexusError) as error:
        return await _page(request, app, error=error, section=section, given=values)
    return back(f"/settings?saved={len(changed)}#{section}")


async def restart(request: Request, app: App) -> Response:
    """Open the home again with the settings that were saved."""
    reopen = served_by(request).restart
    if reopen is None:
        raise UsageError("This home is restarted by its host")
    reopen()
    return back("/settings")


async def test(request: Request, app: App) -> Response:
    """Ask a model of the settings a question, a tool call and a JSON answer."""
    # Imported here, because the providers' libraries take seconds.
    from nexus.broker.agent import trial

    name = (await form(request)).text("name")
    stored = await asyncio.to_thread(config.load, app.home.config_file)
    if name not in stored.models.roles:
        raise UsageError(f"No role uses `{name:.80}`", hint="Save it first.")
    told: list[str] = []
    error: NexusError | None = None
    try:
        async with app.testing_models:
            account = Budgets(app.ledgers, app.config.budgets)
            done = await trial.try_model(stored, name, account=account)
        await trial.keep(app.ledgers.runtime, done)
        told = [f"answered in {done.duration_ms / 1000:.1f} s", *facts(done.known), *concerns(done.known)]
    except NexusError as failure:
        error = failure
    if not is_part(request):
        return back("/settings#models") if error is None else await _page(request, app, error=error)
    return await page(request, "part_model.html", told=told, error=error)


async def _page(
    request: Request,
    app: App,
    *,
    error: NexusError | None = None,
    section: str = "",
    given: dict[str, str] | None = None,
) -> Response:
    path, text, file, problem = app.home.config_file, "", None, None
    try:
        text = await asyncio.to_thread(config.text, path)
        file = await asyncio.to_thread(settings_file.read, text, path, app.config)
    except ConfigError as broken:
        problem = broken
    known = await app.ledgers.runtime.read(models.every)

    def line(name: str, key: str) -> int | None:
        return config_file.line_of(text, name, key)

    return await page(
        request,
        "settings.html",
        status_of(error) if error else 200,
        active="settings",
        editable=file,
        problem=problem,
        error=error,
        refused=section,
        given=given or {},
        used=[
            {"name": name, "roles": roles, "known": _words(known.get(name))}
            for name, roles in (file.next if file else app.config).models.roles.items()
        ],
        sections=settings.sections(app.config),
        restarts=served_by(request).restart is not None,
        known_models=await asyncio.to_thread(_proposals, file.next if file else app.config),
        line=line,
        home=str(app.home.root),
        file=str(path),
        problems=app.automations.problems,
        browsers=len(keys_of(request).browsers),
    )


def _proposals(config: Config) -> list[str]:
    """The models of the providers that can be used now."""
    names = list(config.models.roles)
    for name, known in config.providers.items():
        if name in PROVIDERS and not PROVIDERS[name].is_local and key_found(known):
            names += [f"{name}/{each.name}" for each in offers(config, PROVIDERS[name], known)]
    return list(dict.fromkeys(names))


def _words(known: Capabilities | None) -> dict[str, Any]:
    found = known or Capabilities()
    return {"facts": list(facts(found)), "tested_at": found.tested_at}


ROUTES = (
    get("/settings", shown),
    post("/settings/test", test),
    post("/settings/restart", restart),
    post("/settings/{section}", save),
)
