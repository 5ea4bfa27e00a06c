"""Managing a host over HTTP, at its bare name, with an admin token.

It adds, limits, lists and removes homes, and shows them to a browser. It makes no token for a home that
exists, because whoever has one reads what the home holds: the owner of a home makes them, or whoever has the
host's disk.
"""

import asyncio
import hashlib
import secrets
from base64 import b64encode
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from nexus.config import GatewayConfig
from nexus.engine.shared import HomeAwayError
from nexus.errors import HomeBusyError, HomeError, NexusError, UsageError
from nexus.gateway import dashboard
from nexus.gateway.dashboard.render import MOST_AT_ONCE, page
from nexus.gateway.errors import refusal
from nexus.gateway.guard import BodyLimits, Bucket, Guard, Keys, Rules, check_forgery, spellings
from nexus.gateway.host_telemetry import HostMetrics
from nexus.gateway.internal import remove_at_owner
from nexus.gateway.metrics import TYPE as METRICS_TYPE
from nexus.hosting import homes
from nexus.hosting.audit import Audit, by_token
from nexus.hosting.fleet import moves
from nexus.hosting.fleet.records import FleetHost
from nexus.hosting.fleet.registry import FleetRegistry
from nexus.hosting.host import Host
from nexus.hosting.limits import Limits
from nexus.hosting.registry import HostedHome, Registry

COOKIE: Final = "nexus_admin"
LOGIN: Final = "/login"
STYLE: Final = "/static/style.css"
SESSION_S: Final = 12 * 3600
_PAGE: Final = 100
_STATIC: Final = Path(dashboard.__file__).parent / "static"
_PLAIN: Final = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:24em;margin:18vh auto 0;"
    "padding:0 20px}h1{font-size:19px;margin:0 0 12px}form{display:grid;gap:10px}label{display:grid;gap:3px}"
    "input,button{font:inherit;padding:6px 9px;width:100%;box-sizing:border-box}"
    "p{margin:10px 0 0;opacity:.75}"
)
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{b64encode(hashlib.sha256(_PLAIN.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; img-src data:"
)
_FORM: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Log in · Nexus</title>
<link rel="icon" href="data:,">
<style>{style}</style></head><body><main><h1>Manage this host</h1>
<form method="post" action="/login"><label>Admin token
<input type="password" name="token" required autofocus autocomplete="current-password"></label>
<button>Log in</button></form><p>{note}</p></main></body></html>"""

_LIMITS: Final = {
    "rate_per_s": "{:g} requests/s",
    "requests": "{:g} at once",
    "concurrency": "{:g} runs",
    "day_usd": "${:g} a day",
    "month_usd": "${:g} a month",
    "disk_mib": "{:,} MiB",
    "memory_mib": "{:,} MiB memory",
    "processes": "{:,} processes",
    "cpus": "{:g} CPUs",
}
_HINT: Final = "Create a token with <code>nexus host token --admin</code>."
_WRONG_PER_S: Final = 5
_WRONG_AT_ONCE: Final = 50


def login_form(note: str = _HINT) -> Response:
    """What whoever isn't logged in sees."""
    text = _FORM.format(style=_PLAIN, note=note)
    return HTMLResponse(text, 401, {"content-security-policy": _POLICY})


def is_admin(registry: Registry, token: str) -> bool:
    """Waits for the registry."""
    grant = registry.grant(token)
    return grant is not None and grant.scope == "admin"


def who(request: Request) -> str:
    """Who asks, for the audit log."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    given = token.strip() if kind.lower() == "bearer" else request.cookies.get(COOKIE, "")
    return by_token(given) if given else "browser"


class AdminPage:
    """The page, its login and its style sheet."""

    def __init__(self, registry: Registry, audit: Audit, *, is_encrypted: bool) -> None:
        self._registry = registry
        self._audit = audit
        self._is_encrypted = is_encrypted
        self._wrong = Bucket(_WRONG_PER_S, _WRONG_AT_ONCE)
        self._fleet = registry if isinstance(registry, FleetRegistry) else None
        self.routes = [
            Route("/", self._show, methods=["GET"]),
            Route(LOGIN, self._enter, methods=["POST"]),
            Route("/logout", self._leave, methods=["POST"]),
            Route(STYLE, self._style, methods=["GET"]),
        ]

    async def _show(self, request: Request) -> Response:
        on, after = request.query_params.get("host", ""), request.query_params.get("after", "")
        values = await asyncio.to_thread(self._values, on, after)
        return await page(request, "admin.html", on=on, **values)

    def _values(self, on: str, after: str) -> dict[str, Any]:
        found = (
            self._fleet.placements(on, after, _PAGE)
            if self._fleet is not None and on
            else self._registry.list_homes(after, _PAGE)
        )
        hosts = [] if self._fleet is None else self._fleet.hosts()
        here = next((each.homes for each in hosts if each.name == on), 0)
        return {
            "hosts": [_host(each) for each in hosts],
            "homes": [_home(each) for each in found],
            "total": here if on else self._registry.count(),
            "after": found[-1].name if len(found) == _PAGE else "",
        }

    async def _enter(self, request: Request) -> Response:
        fields = parse_qs((await request.body()).decode("utf-8", "replace"))
        token = fields.get("token", [""])[0].strip()
        if not await asyncio.to_thread(is_admin, self._registry, token):
            await asyncio.to_thread(self._audit.record_refusal, "token.use", who=by_token(token))
            if not self._wrong.take():
                return refusal(429, "Too many attempts", "Wait a moment, then try again.", request.headers)
            return login_form(note="That is not an admin token. " + _HINT)
        entered = RedirectResponse("/", status_code=303)
        entered.set_cookie(
            COOKIE,
            token,
            max_age=SESSION_S,
            httponly=True,
            samesite="strict",
            secure=self._is_encrypted,
        )
        return entered

    async def _leave(self, request: Request) -> Response:
        response = RedirectResponse("/", status_code=303)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    async def _style(self, request: Request) -> Response:
        return FileResponse(_STATIC / "style.css", headers={"cache-control": "private, max-age=86400"})


def _host(host: FleetHost) -> dict[str, Any]:
    state = "dead" if not host.is_alive else "draining" if host.is_draining else "alive"
    return {**asdict(host), "state": state}


def _home(home: HostedHome) -> dict[str, Any]:
    usual = asdict(Limits())
    state = "problem" if home.problem else "open" if home.is_open else "closed"
    limits = [
        _LIMITS[name].format(value) for name, value in asdict(home.limits).items() if value != usual[name]
    ]
    return {**asdict(home), "state": state, "limits": limits}


METRICS: Final = "/metrics"
_PAGE_SIZE: Final = 100
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_ACTS: Final[dict[str, Callable[[FleetRegistry, str], int]]] = {
    "drain": moves.drain,
    "evacuate": moves.evacuate,
    "resume": moves.resume,
}


class Admin:
    """The routes at the bare name of a host."""

    def __init__(self, host: Host, url_of: Callable[[str], str], port: int, metrics: HostMetrics) -> None:
        self._host = host
        self._url_of = url_of
        self._metrics = metrics
        is_encrypted = url_of("x").startswith("https:")
        self.routes = [
            Route(METRICS, self._get_metrics, methods=["GET"]),
            Route("/api/homes", self._list_homes, methods=["GET"]),
            Route("/api/homes", self._add_home, methods=["POST"]),
            Route("/api/homes/{name}", self._remove_home, methods=["DELETE"]),
            Route("/api/homes/{name}/limits", self._change_limits, methods=["PATCH"]),
            *AdminPage(host.registry, host.audit, is_encrypted=is_encrypted).routes,
        ]
        if isinstance(host.registry, FleetRegistry):
            self.routes += FleetAdmin(host.registry, host.audit).routes
        defaults = GatewayConfig()
        own = url_of("x").partition("//x.")[2]
        rules = Rules(
            hosts=spellings([own, *(f"{name}:{port}" for name in (*_LOOPBACK, own.partition(":")[0]))]),
            rate_per_s=defaults.rate_per_s,
            body=BodyLimits(most_bytes=defaults.max_body_bytes, timeout_ms=defaults.body_timeout_ms),
        )
        app = Starlette(routes=self.routes, exception_handlers={NexusError: _answer_error})
        app.state.making = asyncio.Semaphore(MOST_AT_ONCE)
        self._guard = _AdminGuard(app, rules, host.registry, host.audit)
        self._scraping = _ScrapeGuard(app, rules, host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._scraping if scope["path"] == METRICS else self._guard)(scope, receive, send)

    async def _get_metrics(self, request: Request) -> Response:
        return Response(await self._metrics.text(), media_type=METRICS_TYPE)

    async def _list_homes(self, request: Request) -> Response:
        after = request.query_params.get("after", "")
        found = await asyncio.to_thread(self._host.registry.list_homes, after, _PAGE_SIZE)
        return JSONResponse({"homes": [self._describe(each) for each in found], "open": len(self._host.pool)})

    async def _add_home(self, request: Request) -> Response:
        asked = await _read_fields(request)
        name, by = str(asked.get("name", "")), who(request)
        made, token = await asyncio.to_thread(self._create_home, name, asked.get("settings"), by)
        return JSONResponse({**self._describe(made), "token": token}, 201)

    def _create_home(self, name: str, settings: Any, by: str) -> tuple[HostedHome, str]:
        """A new home is empty, so its first token opens nobody's words."""
        registry = self._host.registry
        with self._host.audit.act("home.add", who=by, home=name):
            made = homes.create(registry, name, None if settings is None else str(settings))
        with self._host.audit.act("token.create", who=by, home=name, scope="full"):
            return made, registry.new_token(made.id, "full")

    async def _remove_home(self, request: Request) -> Response:
        found = await asyncio.to_thread(self._host.registry.get_named, request.path_params["name"])
        fleet = self._host.fleet
        if fleet is None or not await remove_at_owner(fleet, found.id):
            await self._host.pool.evict(found.id)
            await asyncio.to_thread(self._delete_home, found, who(request))
        copies = self._host.pool.copies
        if copies is not None and request.query_params.get("copies") == "true":
            await copies.drop(found.id)
        return Response(status_code=204)

    def _delete_home(self, found: HostedHome, by: str) -> None:
        with self._host.audit.act("home.remove", who=by, home=found.name):
            homes.remove(self._host.registry, found)

    async def _change_limits(self, request: Request) -> Response:
        found = await asyncio.to_thread(self._host.registry.get_named, request.path_params["name"])
        asked = await _read_fields(request)
        if unknown := asked.keys() - asdict(found.limits).keys():
            raise UsageError(f"Unknown limit: {', '.join(sorted(unknown))}", hint="See `nexus host limit`.")
        changed = found.limits.change(asked)
        await asyncio.to_thread(self._store_limits, found, changed, who(request), asked)
        self._host.engine.scope_limits[found.id] = changed.concurrency
        self._host.engine.announce()
        return JSONResponse(asdict(changed))

    def _store_limits(self, found: HostedHome, limits: Limits, by: str, asked: dict[str, Any]) -> None:
        with self._host.audit.act("home.limit", who=by, home=found.name, limits=asked):
            self._host.registry.set_limits(found.id, limits)

    def _describe(self, found: HostedHome) -> dict[str, Any]:
        return {**asdict(found), "is_open": found.id in self._host.pool, "url": self._url_of(found.name)}


class FleetAdmin:
    """Lists and empties hosts, and moves homes."""

    def __init__(self, registry: FleetRegistry, audit: Audit) -> None:
        self._registry = registry
        self._audit = audit
        self.routes = [
            Route("/api/hosts", self._list_hosts, methods=["GET"]),
            Route("/api/hosts/{name}/{act}", self._answer_act, methods=["POST"]),
            Route("/api/homes/{name}/host", self._answer_move, methods=["PUT"]),
            Route("/hosts/{name}/{act}", self._press_button, methods=["POST"]),
        ]

    async def _list_hosts(self, request: Request) -> Response:
        found = await asyncio.to_thread(self._registry.hosts)
        return JSONResponse({"hosts": [asdict(each) for each in found]})

    async def _answer_act(self, request: Request) -> Response:
        return JSONResponse({"homes": await asyncio.to_thread(self._carry_out, request)}, 202)

    async def _press_button(self, request: Request) -> Response:
        await asyncio.to_thread(self._carry_out, request)
        return RedirectResponse("/", status_code=303)

    def _carry_out(self, request: Request) -> int:
        name, act = str(request.path_params["name"]), str(request.path_params["act"])
        if act not in _ACTS:
            raise UsageError(f"A host can't {act}", hint=f"Choose one of {', '.join(_ACTS)}.")
        with self._audit.act(f"host.{act}", who=who(request), host=name):
            return _ACTS[act](self._registry, name)

    async def _answer_move(self, request: Request) -> Response:
        try:
            asked: Any = await request.json()
            to = str(asked["host"])
        except (ValueError, KeyError, TypeError):
            raise UsageError("The request names no host", hint='Send {"host": NAME}.') from None
        return JSONResponse(await asyncio.to_thread(self._move_home, request, to), 202)

    def _move_home(self, request: Request, to: str) -> dict[str, Any]:
        found = self._registry.get_named(request.path_params["name"])
        with self._audit.act("home.move", who=who(request), home=found.name, host=to):
            self._registry.place(found.id, to)
        return {"name": found.name, "host": found.host, "moving_to": to}


class _AdminGuard(Guard):
    """Lets in whoever has an admin token, as a header or, in a browser, as a cookie."""

    def __init__(self, app: Starlette, rules: Rules, registry: Registry, audit: Audit) -> None:
        super().__init__(app, Keys(""), rules)
        self._registry = registry
        self._audit = audit

    async def check_token(self, request: Request, token: str) -> Response | None:
        if not await asyncio.to_thread(is_admin, self._registry, token):
            await asyncio.to_thread(self._audit.record_refusal, "token.use", who=by_token(token))
            return self._refuse(request.headers, "Invalid API token")
        return None

    async def check_access(self, request: Request) -> Response | None:
        if request.url.path == LOGIN and request.method == "POST":
            return None  # what it is sent is the proof
        if "authorization" not in request.headers:
            token = request.cookies.get(COOKIE, "")
            if token and await asyncio.to_thread(is_admin, self._registry, token):
                return check_forgery(request)
            if request.url.path == "/":
                return login_form()
        return await super().check_access(request)


class _ScrapeGuard(_AdminGuard):
    """Lets in whoever has the scrape token, too, at whatever address Prometheus found the host."""

    def __init__(self, app: Starlette, rules: Rules, host: Host) -> None:
        super().__init__(app, rules, host.registry, host.audit)
        self._token = host.settings.scrape_token.encode()

    def _check_origin(self, headers: Headers) -> Response | None:
        # A name that was made to point here gets nothing by it: there are no cookies, only tokens.
        if "origin" in headers:
            return refusal(403, "Cross-origin requests are not allowed", "Use the scrape token.")
        return None

    async def check_token(self, request: Request, token: str) -> Response | None:
        # First: it needs no list of homes, which may be what Prometheus is to tell about.
        given = token.encode(errors="surrogateescape")
        if self._token and secrets.compare_digest(given, self._token):
            return None
        return await super().check_token(request, token)


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, NexusError)  # noqa: S101 - an invariant, for the reader and the type checker
    return refusal(_choose_status(error), error.message, error.hint)


def _choose_status(error: NexusError) -> int:
    match error:
        case UsageError():
            return 422
        case HomeBusyError():
            return 409
        case HomeError():
            return 404
        case HomeAwayError():
            return 503
        case _:
            return 500


async def _read_fields(request: Request) -> dict[str, Any]:
    try:
        found: Any = await request.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError("The request body is not a JSON object")
    return cast("dict[str, Any]", found)
