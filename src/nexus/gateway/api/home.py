"""The home itself: what was spent, its settings, and login links for its dashboard."""

from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from nexus import __version__
from nexus.gateway.dependencies import HomeKeys, HomeMetrics, ServedApp, api_router
from nexus.gateway.guard import LINK_S, LOGIN, public_address
from nexus.gateway.metrics import TYPE as METRICS_TYPE
from nexus.gateway.views import settings, usage
from nexus.gateway.views.settings import Section
from nexus.gateway.views.usage import Report

router = api_router("home")
login_router = api_router("login")


class Standing(BaseModel):
    """The home and version."""

    home: str = Field(description="Permanent id of the home.")
    version: str


@router.get("/home")
async def get_home(app: ServedApp) -> Standing:
    """Show the home and the version of Nexus."""
    return Standing(home=app.home.identity(), version=__version__)


@router.get("/metrics", response_class=PlainTextResponse)
async def get_metrics(app: ServedApp, metrics: HomeMetrics) -> Response:
    """Metrics in Prometheus text format."""
    return Response(await metrics.text(app), media_type=METRICS_TYPE)


@router.get("/usage")
async def get_usage(
    app: ServedApp,
    days: Annotated[int, Query(ge=1, le=366, description="Number of days, including today.")] = 30,
    messages: Annotated[int, Query(ge=1, le=100, description="Number of most expensive messages.")] = 10,
) -> Report:
    """Show cost by day, model, automation and message, budgets, and refusals."""
    return await usage.load_report(app.ledgers, app.config, days=days, messages=messages)


@router.get("/settings")
async def get_settings(app: ServedApp) -> tuple[Section, ...]:
    """List all settings. Secrets are only reported as set or not set."""
    return settings.list_sections(app.config)


class LoginLink(BaseModel):
    """A login link."""

    url: str = Field(description="Open it in a browser. It works once.")
    valid_s: int = Field(description="Validity.")


@login_router.post("/login-links", status_code=201)
async def make_login_link(request: Request, app: ServedApp, keys: HomeKeys) -> LoginLink:
    """Create a login link that works once, within ten minutes."""
    public = public_address(app.config.gateway.public_url)
    base = public.origin if public else str(request.base_url)
    return LoginLink(url=login_url(base, keys.new_code()), valid_s=LINK_S)


def login_url(base: str, code: str) -> str:
    """The link as a person opens it."""
    return f"{base.rstrip('/')}{LOGIN}?code={code}"
