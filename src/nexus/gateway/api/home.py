"""The home itself: what was spent, and its settings."""

from typing import Annotated

from fastapi import Query, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from nexus import __version__
from nexus.gateway.dependencies import HomeMetrics, ServedApp, api_router
from nexus.gateway.metrics import TYPE as METRICS_TYPE
from nexus.gateway.views import settings, usage
from nexus.gateway.views.settings import Section
from nexus.gateway.views.usage import Report

router = api_router("home")


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
