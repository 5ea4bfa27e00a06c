"""OAuth for MCP clients elsewhere: they register themselves, and the owner lets each in on a page.

The SDK speaks the protocol, with PKCE. What is decided here is who gets a token, and for how long. A token
opens /mcp and nothing else.
"""

import asyncio
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes, create_protected_resource_routes
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from nexus.gateway.dashboard.render import page, read_form
from nexus.gateway.dependencies import served_by
from nexus.gateway.errors import leave_for, plain_page
from nexus.gateway.mcp import Grant, Grants
from nexus.text import join_lines, shorten

CONSENT: Final = "/oauth/consent"
_CODE_S: Final = 600
_ACCESS_S: Final = 3600
_REFRESH_S: Final = 90 * 86_400
_MOST_WAITING: Final = 200
_NAME_CHARACTERS: Final = 60
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
_RUN_BY_BROWSERS: Final = frozenset(
    {"about", "blob", "chrome", "data", "file", "filesystem", "javascript", "vbscript", "view-source"}
)

Base = OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]


@dataclass(frozen=True, kw_only=True)
class _Question:
    """A client that waits for the owner's word."""

    client: OAuthClientInformationFull
    params: AuthorizationParams
    ends: float


class Authority(Base):
    """Gives tokens to clients that the owner let in. What waits for that is kept in memory."""

    def __init__(self, grants: Grants, origin: str, resource: str) -> None:
        self._grants = grants
        self._origin, self._resource = origin, resource
        self._registered: OrderedDict[str, OAuthClientInformationFull] = OrderedDict()
        self._questions: OrderedDict[str, _Question] = OrderedDict()
        self._codes: OrderedDict[str, AuthorizationCode] = OrderedDict()
        self._spent: OrderedDict[str, str] = OrderedDict()
        """The client of each code that was used."""

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        if client_id in self._registered:
            return self._registered[client_id]
        grant = (await asyncio.to_thread(self._grants.load)).get(client_id)
        if grant is None:
            return None
        client = OAuthClientInformationFull.model_validate_json(grant.registration)
        if client.token_endpoint_auth_method != "none":  # noqa: S105 - a word of the protocol
            client.client_secret = self._make_secret(client_id)
        return client

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        for uri in client_info.redirect_uris or ():
            is_web = uri.scheme == "https" or (uri.scheme == "http" and uri.host in _LOOPBACK)
            if not is_web and (uri.scheme == "http" or uri.scheme in _RUN_BY_BROWSERS):
                raise RegistrationError("invalid_redirect_uri", "Use https, loopback or a scheme of the app")
        client_id = client_info.client_id
        if client_info.client_secret:
            client_info.client_secret = self._make_secret(client_id)
        _put(self._registered, client_id, client_info)

    def _make_secret(self, client_id: str) -> str:
        """Make what a client proves itself with again, so that it is kept nowhere."""
        return self._grants.digest(f"client {client_id}")

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if params.resource is not None and params.resource.rstrip("/") != self._resource:
            raise AuthorizeError("invalid_target", f"Tokens are for {self._resource} alone")
        ticket = secrets.token_urlsafe(32)
        _put(self._questions, ticket, _Question(client=client, params=params, ends=time.time() + _CODE_S))
        return f"{self._origin}{CONSENT}?ticket={ticket}"

    def find_question(self, ticket: str) -> _Question | None:
        found = self._questions.get(ticket)
        return found if found is not None and found.ends > time.time() else None

    def answer(self, ticket: str, *, is_allowed: bool) -> str:
        """Carry out what the owner said, once; where the browser goes with it."""
        question = self._questions.pop(ticket)
        params = question.params
        to: dict[str, Any] = {"state": params.state, "iss": str(AnyHttpUrl(self._origin))}
        if not is_allowed:
            return construct_redirect_uri(str(params.redirect_uri), error="access_denied", **to)
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            client_id=question.client.client_id,
            expires_at=time.time() + _CODE_S,
            scopes=params.scopes or [],
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        _put(self._codes, code.code, code)
        return construct_redirect_uri(str(code.redirect_uri), code=code.code, **to)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        if self._spent.get(authorization_code) == client.client_id:
            await self._end(client.client_id)
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        code = self._codes.pop(authorization_code.code, None)
        if code is None:
            raise TokenError("invalid_grant", "authorization code does not exist")
        _put(self._spent, code.code, code.client_id)
        grant = Grant(
            client_id=code.client_id,
            name=name_client(client),
            returns_to=name_place(str(code.redirect_uri)),
            registration=client.model_dump_json(exclude={"client_secret"}, exclude_none=True),
            created_at=time.time(),
        )
        return await asyncio.to_thread(self._issue, grant, code.scopes)

    def _issue(self, grant: Grant, scopes: list[str], *, used: str = "") -> OAuthToken:
        """Give a client new tokens. `used` is the refresh token it shows, which must still be its newest."""
        access, refresh, now = secrets.token_urlsafe(32), secrets.token_urlsafe(32), time.time()
        tokens = {
            "access": self._grants.digest(access),
            "access_ends": now + _ACCESS_S,
            "refresh": self._grants.digest(refresh),
            "refresh_ends": now + _REFRESH_S,
            "used": used,
        }
        with self._grants.change() as grants:
            known = grants.pop(grant.client_id, None)
            if used and (known is None or known.refresh != used):
                raise TokenError("invalid_grant", "refresh token does not exist")
            grants[grant.client_id] = grant.model_copy(update=tokens)
        scope = " ".join(scopes) or None
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=_ACCESS_S, scope=scope)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        digest = self._grants.digest(refresh_token)
        grant = (await asyncio.to_thread(self._grants.load)).get(client.client_id)
        if grant is not None and grant.used == digest:
            await self._end(grant.client_id)
        if grant is None or grant.refresh != digest:
            return None
        scopes = (client.scope or "").split()
        ends = int(grant.refresh_ends)
        return RefreshToken(token=refresh_token, client_id=grant.client_id, scopes=scopes, expires_at=ends)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        grant = (await asyncio.to_thread(self._grants.load)).get(refresh_token.client_id)
        if grant is None:
            raise TokenError("invalid_grant", "refresh token does not exist")
        used = self._grants.digest(refresh_token.token)
        return await asyncio.to_thread(self._issue, grant, scopes, used=used)

    async def load_access_token(self, token: str) -> AccessToken | None:
        digest = self._grants.digest(token)
        grants = await asyncio.to_thread(self._grants.load)
        found = next((each for each in grants.values() if each.access == digest), None)
        return None if found is None else AccessToken(token=token, client_id=found.client_id, scopes=[])

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        await self._end(token.client_id)

    async def _end(self, client_id: str) -> None:
        def remove() -> None:
            with self._grants.change() as grants:
                grants.pop(client_id, None)

        await asyncio.to_thread(remove)


def _put(kept: OrderedDict[str, Any], key: str, value: Any) -> None:
    """Keep what anybody may have caused: the newest."""
    kept[key] = value
    while len(kept) > _MOST_WAITING:
        kept.popitem(last=False)


def name_client(client: OAuthClientInformationFull) -> str:
    """What a client calls itself: its own word."""
    name = "".join(each if each.isprintable() else " " for each in client.client_name or "")
    return shorten(join_lines(name), _NAME_CHARACTERS) or "A client without a name"


def name_place(uri: str) -> str:
    """Where a browser is sent back to, in a few words: its host, or the scheme of an app."""
    parts = urlsplit(uri)
    return shorten(
        parts.netloc if parts.scheme in {"http", "https"} else f"{parts.scheme}:", _NAME_CHARACTERS
    )


def make_endpoint(grants: Grants, origin: str, resource: str) -> Router:
    """What answers to the paths of the protocol, and on the page where the owner is asked."""
    authority = Authority(grants, origin, resource)
    issuer = AnyHttpUrl(origin)

    async def ask(request: Request) -> Response:
        ticket, served = request.query_params.get("ticket", ""), served_by(request)
        question = authority.find_question(ticket)
        if question is None:
            return plain_page(404, "This request has expired", "Connect again in the app.")
        if not served.keys.browsers.knows(request.cookies.get(served.keys.cookie, "")):
            if "again" in request.query_params:
                hint = "Run `nexus login`, open its link in this browser, then connect again in the app."
                return plain_page(401, "Log in to the dashboard first", hint)
            # What another page led to brings no strict cookie along: the next step must come from our own.
            return leave_for(f"{CONSENT}?ticket={quote(ticket)}&again=1", "Nexus")
        return await page(
            request,
            "consent.html",
            active=None,
            ticket=ticket,
            name=name_client(question.client),
            returns_to=name_place(str(question.params.redirect_uri)),
        )

    async def decide(request: Request) -> Response:
        form = await read_form(request)
        if authority.find_question(form.text("ticket")) is None:
            return plain_page(404, "This request has expired", "Connect again in the app.")
        is_allowed = form.text("decision") == "allow"
        to = authority.answer(form.text("ticket"), is_allowed=is_allowed)
        return leave_for(to, "Return to the app")

    return Router(
        routes=[
            *create_auth_routes(
                authority,
                issuer,
                client_registration_options=ClientRegistrationOptions(enabled=True),
                revocation_options=RevocationOptions(enabled=True),
            ),
            *create_protected_resource_routes(
                AnyHttpUrl(resource), [issuer], resource_name="The memory of a Nexus home"
            ),
            Route(CONSENT, ask, methods=["GET"]),
            Route(CONSENT, decide, methods=["POST"]),
        ]
    )
