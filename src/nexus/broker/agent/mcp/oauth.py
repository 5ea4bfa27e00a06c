"""Signing in to MCP servers with OAuth: the SDK does the protocol, and tokens stay where secrets are kept."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from nexus import secrets
from nexus.broker.agent.clients import ssl_context
from nexus.broker.tools.web.download import Resolve, is_public, resolve
from nexus.config import McpConfig
from nexus.errors import SecretError, ToolError

# It logs a stack trace for each sign-in that is needed, which is told where it matters.
logging.getLogger("mcp.client.auth.oauth2").setLevel(logging.CRITICAL)

_SIGN_IN_MS: Final = 15 * 60 * 1000
_REVOKE_TIMEOUT_S: Final = 15.0
_NO_BROWSER: Final = "http://127.0.0.1/callback"
_PAST: Final = 1.0
"""When a token expired that is to be refreshed."""


class SignIn(BaseModel):
    """What is kept of a sign-in. It is a secret."""

    client: OAuthClientInformationFull | None = None
    tokens: OAuthToken | None = None
    expires_at: float | None = None
    server: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None

    @property
    def secrets(self) -> set[str]:
        """What nobody may be shown."""
        tokens, client = self.tokens, self.client
        found = {tokens.access_token, tokens.refresh_token} if tokens else set[str | None]()
        found |= {client.client_secret} if client else set[str | None]()
        return {each for each in found if each}


@dataclass(kw_only=True)
class Keeper:
    """Keeps a sign-in: in memory, or also at the source of a secret, which other processes change, too."""

    source: str = ""
    note_secrets: Callable[[set[str]], None] = lambda found: None
    found: SignIn = field(default_factory=SignIn)

    async def load(self) -> SignIn:
        """What is kept now."""
        if self.source:
            text = await asyncio.to_thread(secrets.read, self.source)
            try:
                self.found = SignIn.model_validate_json(text)
            except ValidationError:
                raise SecretError(f"{self.source} holds no sign-in", hint="Sign in again.") from None
        self.note_secrets(self.found.secrets)
        return self.found

    async def save(self) -> None:
        """Keep what was found."""
        self.note_secrets(self.found.secrets)
        if self.source:
            await asyncio.to_thread(secrets.replace, self.source, self.found.model_dump_json())


class Auth(OAuthClientProvider):
    """Signs requests to one server. Without `show` and `wait`, tokens are refreshed, and nobody can sign in.

    `show` gets the address where a person signs in; `wait` returns the one at which they end.
    """

    def __init__(
        self,
        name: str,
        url: str,
        keeper: Keeper,
        *,
        redirect_uri: str = _NO_BROWSER,
        show: Callable[[str], Awaitable[None]] | None = None,
        wait: Callable[[], Awaitable[str]] | None = None,
        resolve: Resolve = resolve,
    ) -> None:
        self._keeper = keeper
        self._resolve = resolve
        self._wait = wait
        self._refused = ""
        """The header of a request that the server refused."""
        self.problem: ToolError | None = None
        """Why requests are refused, if they are."""
        self._needed = ToolError(
            f"The MCP server `{name}` needs you to sign in", hint=f"Run `nexus mcp login {name}`."
        )
        metadata = OAuthClientMetadata(
            client_name="Nexus",
            redirect_uris=[AnyUrl(redirect_uri)],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        )
        super().__init__(
            url,
            metadata,
            _Storage(self),
            redirect_handler=show or self._refuse,
            callback_handler=self._receive,
        )

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Sign a request. If its token is refused, refresh the token and sign it again, once."""
        for is_last in (False, True):
            async with self.context.lock:  # another request may be refreshing the token
                await self._load()
            flow = super().async_auth_flow(request)
            try:
                outgoing = await anext(flow)
                while True:
                    await self.check_target(outgoing.url)
                    response = yield outgoing
                    outgoing = await flow.asend(response)
            except StopAsyncIteration:
                self.problem = None
                return
            except ToolError as error:
                self.problem = error
                if is_last or not self._may_refresh():
                    raise
                self._refused = request.headers.get("authorization", "")
            finally:
                await flow.aclose()

    async def _load(self) -> None:
        """Take over what is kept: `nexus mcp login`, or another process, may have changed it."""
        try:
            found = await self._keeper.load()
        except SecretError:
            self.problem = self._needed
            raise self._needed from None
        context = self.context
        context.current_tokens, context.client_info = found.tokens, found.client
        # Another request, or another process, may have refreshed it meanwhile.
        is_refused = found.tokens is not None and self._refused == f"Bearer {found.tokens.access_token}"
        context.token_expiry_time = _PAST if is_refused else found.expires_at
        context.oauth_metadata = context.oauth_metadata or found.server
        context.protected_resource_metadata = context.protected_resource_metadata or found.resource
        if found.resource and not context.auth_server_url and found.resource.authorization_servers:
            context.auth_server_url = str(found.resource.authorization_servers[0])

    async def check_target(self, url: httpx2.URL) -> None:
        """Refuse where a server on the internet sends this machine, unless that is on the internet, too.

        What it says of itself may name a router, or a cloud's metadata. Only TLS holds a name to its address.
        """
        own = httpx2.URL(self.context.server_url)
        if (url.scheme, url.netloc) == (own.scheme, own.netloc) or not await self._is_public(own):
            return
        if url.scheme != "https" or not await self._is_public(url):
            raise ToolError(
                f"The MCP server names {url.scheme}://{url.host} for the sign-in: no public address with TLS",
                hint="Ask its operator, or remove the server.",
            )

    async def _is_public(self, url: httpx2.URL) -> bool:
        try:
            found = await self._resolve(url.host, url.port or 443)
        except (OSError, UnicodeError):
            return False
        return all(map(is_public, found))

    def _may_refresh(self) -> bool:
        tokens = self._keeper.found.tokens
        return tokens is not None and bool(tokens.refresh_token) and self._wait is None

    async def _refuse(self, url: str) -> None:
        raise self._needed

    async def _receive(self) -> AuthorizationCodeResult:
        assert self._wait is not None  # noqa: S101 - without it, `_refuse` was called first
        given = parse_qs(urlsplit(await self._wait()).query)
        values = {name: given[name][0] for name in ("code", "state", "iss") if name in given}
        if "code" not in values:
            why = given.get("error_description") or given.get("error") or ["it gave no code"]
            raise ToolError(f"The server refused the sign-in: {why[0]:.200}")
        return AuthorizationCodeResult(**values)

    async def keep(self, **changes: Any) -> None:
        """Keep what the SDK got, with what it takes to use it in another process."""
        context = self.context
        self._keeper.found = self._keeper.found.model_copy(
            update={
                "expires_at": context.token_expiry_time,
                "server": context.oauth_metadata,
                "resource": context.protected_resource_metadata,
                **changes,
            }
        )
        await self._keeper.save()


class _Storage(TokenStorage):
    """What the SDK's client reads and writes."""

    def __init__(self, auth: Auth) -> None:
        self._auth = auth

    async def get_tokens(self) -> OAuthToken | None:
        return self._auth.context.current_tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await self._auth.keep(tokens=tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._auth.context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._auth.keep(client=client_info)


async def sign_in(
    name: str,
    config: McpConfig,
    redirect_uri: str,
    show: Callable[[str], Awaitable[None]],
    wait: Callable[[], Awaitable[str]],
) -> tuple[str, int]:
    """Reach a server, and sign in if it wants that.

    Returns what to keep as a secret, or nothing, and how many tools the server has.
    """
    from nexus.broker.agent.mcp.connection import Connection

    keeper = Keeper()
    auth = Auth(name, config.url, keeper, redirect_uri=redirect_uri, show=show, wait=wait)
    connection = Connection(name, replace(config, start_timeout_ms=_SIGN_IN_MS), {}, {}, auth)
    try:
        offers = await connection.open()
    finally:
        await connection.close()
    return keeper.found.model_dump_json() if keeper.found.tokens else "", len(offers)


async def revoke(source: str) -> bool:
    """Revoke the tokens of a sign-in and remove it. False: the server didn't confirm, or can't."""
    keeper = Keeper(source=source)
    try:
        found = await keeper.load()
    except SecretError:
        found = SignIn()
    done = await _revoke(found) if found.tokens and found.server else False
    await asyncio.to_thread(secrets.delete, source)
    return done


async def _revoke(found: SignIn) -> bool:
    """Revoke each token, as RFC 7009 says."""
    assert found.tokens is not None  # noqa: S101 - its only caller looked
    if found.server is None or found.server.revocation_endpoint is None or found.client is None:
        return False
    tokens = {"refresh_token": found.tokens.refresh_token, "access_token": found.tokens.access_token}
    auth = Auth("", str(found.server.issuer), Keeper())
    auth.context.client_info = found.client
    done = True
    async with httpx2.AsyncClient(verify=ssl_context(), timeout=_REVOKE_TIMEOUT_S) as http:
        for kind, token in tokens.items():
            if token:
                given = {"token": token, "token_type_hint": kind, "client_id": found.client.client_id}
                data, headers = auth.context.prepare_token_auth(given, {})
                try:
                    await auth.check_target(httpx2.URL(str(found.server.revocation_endpoint)))
                    sent = await http.post(str(found.server.revocation_endpoint), data=data, headers=headers)
                    done = done and sent.status_code == 200
                except (httpx2.HTTPError, ToolError):
                    done = False
    return done
