"""An MCP server behind OAuth, and the authorization server that it trusts, each at an address of its own."""

import secrets
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    ProviderTokenVerifier,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

Base = OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]


class Authority(Base):
    """An authorization server whose person agrees at once. Refresh tokens are used once, as are codes."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.issued: list[str] = []
        """Every secret that it gave out."""
        self.lifetime_s: int | None = 3600
        self.refreshed = 0
        self.denies = False

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info
        self.issued += [client_info.client_secret] if client_info.client_secret else []

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if self.denies:
            return construct_redirect_uri(str(params.redirect_uri), error="access_denied", state=params.state)
        code = self._make("code")
        assert client.client_id is not None
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        if self.codes.pop(authorization_code.code, None) is None:
            raise TokenError("invalid_grant")
        return self._issue(
            authorization_code.client_id, authorization_code.scopes, authorization_code.resource
        )

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        self.refreshed += 1
        return self._issue(refresh_token.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    def _issue(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = self._make("access"), self._make("refresh")
        about: dict[str, Any] = {"client_id": client_id, "scopes": scopes, "resource": resource}
        self.access[access] = AccessToken(token=access, **about)
        self.refresh[refresh] = RefreshToken(token=refresh, **about)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=self.lifetime_s)

    def _make(self, kind: str) -> str:
        self.issued.append(f"{kind}-{secrets.token_urlsafe(24)}")
        return self.issued[-1]


@contextmanager
def oauth_servers() -> Generator[tuple[Authority, str]]:
    """The authorization server, and the address of the MCP server."""
    authority = Authority()
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        issuer = AnyHttpUrl(f"http://127.0.0.1:{one.getsockname()[1]}")
        url = f"http://127.0.0.1:{other.getsockname()[1]}/mcp"
        routes = create_auth_routes(
            authority,
            issuer,
            client_registration_options=ClientRegistrationOptions(enabled=True),
            revocation_options=RevocationOptions(enabled=True),
        )
        server = MCPServer(
            "vault",
            token_verifier=ProviderTokenVerifier(authority),
            auth=AuthSettings(
                issuer_url=issuer, resource_server_url=AnyHttpUrl(url), validate_token_resource=True
            ),
        )
        server.tool()(open_vault)
        with _serve(Starlette(routes=routes), one), _serve(server.streamable_http_app(), other):
            yield authority, url


def open_vault(words: str) -> str:
    """Open the vault."""
    return f"open: {words}"


@contextmanager
def _serve(app: Any, listening: socket.socket) -> Generator[None]:
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(30)
