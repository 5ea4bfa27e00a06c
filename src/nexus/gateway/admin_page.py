"""The page of whoever manages a host or a fleet: its hosts and homes, and nothing that a home holds.

A browser logs in with an admin token and keeps it in a cookie that no script reads, so any host of a fleet
knows it, and revoking the token logs it out.
"""

import asyncio
import hashlib
from base64 import b64encode
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from nexus.gateway import dashboard
from nexus.gateway.dashboard.render import page
from nexus.gateway.errors import refusal
from nexus.gateway.guard import Bucket
from nexus.hosting.audit import Audit, by_token
from nexus.hosting.fleet.records import FleetHost
from nexus.hosting.fleet.registry import FleetRegistry
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
