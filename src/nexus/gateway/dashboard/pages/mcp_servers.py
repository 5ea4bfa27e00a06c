"""MCP servers of the settings, and signing in to them in this browser."""

import asyncio
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from nexus import config_file, extras, secrets
from nexus.app import App
from nexus.broker.agent import import_module
from nexus.config_file import Change
from nexus.errors import MissingError, NexusError, UsageError
from nexus.gateway.dashboard.render import get, page, post
from nexus.gateway.dependencies import Served, served_by
from nexus.gateway.errors import plain_page
from nexus.gateway.guard import SIGNED_IN
from nexus.text import pluralize


async def list_servers(request: Request, app: App) -> Response:
    """List the servers, with a button where one can sign in."""
    may_sign_in = served_by(request).restart is not None
    return await page(
        request, "mcp_servers.html", active="settings", servers=app.config.mcp, may_sign_in=may_sign_in
    )


async def sign_in(request: Request, app: App) -> Response:
    """Begin to sign in to a server: show the link to its own page."""
    name, served = str(request.path_params["name"]), served_by(request)
    if name not in app.config.mcp or not app.config.mcp[name].url:
        raise MissingError(f"No MCP server {name:.40} with a URL", hint="The page MCP servers lists them.")
    if served.restart is None:
        raise UsageError("This home is set up by its host")
    extras.require("mcp", "Signing in to an MCP server")
    link: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    # Where the browser comes back to is where it is now, also through a tunnel.
    back = f"{request.headers['origin']}{SIGNED_IN}"
    work = asyncio.create_task(_sign_in(app, served, name, back, link))
    served.stack.callback(work.cancel)
    await asyncio.wait({work, link}, return_when=asyncio.FIRST_COMPLETED)
    error, told = None, ""
    if work.done():
        try:
            told = work.result()
        except NexusError as failure:
            error = failure
    there = None if work.done() else link.result()
    return await page(request, "part_sign_in.html", there=there, error=error, told=told, name=name)


async def _sign_in(app: App, served: Served, name: str, back: str, link: "asyncio.Future[str]") -> str:
    """Sign in to a server while its link is open, and keep the tokens where secrets are kept."""
    oauth = await import_module("nexus.broker.agent.mcp.oauth")
    settings, arrived = app.config.mcp[name], asyncio.get_running_loop().create_future()
    state = ""

    async def show(url: str) -> None:
        nonlocal state
        state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        served.sign_ins[state] = arrived
        link.set_result(url)

    async def wait() -> str:
        return await arrived

    try:
        found, tools = await oauth.sign_in(name, replace(settings, oauth=""), back, show, wait)
    finally:
        served.sign_ins.pop(state, None)
    if found and settings.oauth:
        await asyncio.to_thread(secrets.replace, settings.oauth, found)
    elif found:
        source = await asyncio.to_thread(secrets.keep, found, f"mcp-{name}.json", app.home.secrets)
        change = Change(section=f"mcp.{name}", key="oauth", value=source)
        await asyncio.to_thread(config_file.save, app.home.config_file, [change])
        assert served.restart is not None  # noqa: S101 - `sign_in` looked
        served.restart()
    return f"{pluralize(tools, 'tool')}{'' if found else '; it asks for no sign-in'}"


async def end(request: Request, app: App) -> Response:
    """Take what the browser was sent back with. The guard let it in for its state."""
    arrived = served_by(request).sign_ins.pop(request.query_params.get("state", ""), None)
    if arrived is None or arrived.done():
        raise MissingError("This sign-in has ended", hint="Begin again on the page MCP servers.")
    arrived.set_result(str(request.url))
    return plain_page(200, "You can close this page", "Nexus goes on with the sign-in.")


ROUTES = (
    get("/mcp-servers", list_servers),
    get(SIGNED_IN, end),
    post("/mcp-servers/{name}/sign-in", sign_in),
)
