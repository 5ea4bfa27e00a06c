"""The home itself: what was spent, and its settings."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from nexus import __version__
from nexus.gateway.dependencies import Home, HomeMetrics
from nexus.gateway.errors import JSON_PROBLEMS
from nexus.gateway.metrics import TYPE as METRICS_TYPE
from nexus.gateway.views import settings, usage
from nexus.gateway.views.settings import Section
from nexus.gateway.views.usage import Report

router = APIRouter(tags=["home"])


class Standing(BaseModel):
    """What answers here."""

    home: str = Field(description="The home's own name, which stays when it is moved.")
    version: str


@router.get("/home")
async def get_home(home: Home) -> Standing:
    """Which home this is, and the version of the program that serves it."""
    return Standing(home=home.home.identity(), version=__version__)


@router.get("/metrics", response_class=PlainTextResponse, responses=JSON_PROBLEMS)
async def get_metrics(home: Home, metrics: HomeMetrics) -> Response:
    """Numbers for Prometheus, in its text format. It is asked with the token, as everything."""
    return Response(await metrics.text(home), media_type=METRICS_TYPE)


@router.get("/usage")
async def get_usage(
    home: Home,
    days: Annotated[int, Query(ge=1, le=366, description="How many, today among them.")] = 30,
    messages: Annotated[int, Query(ge=1, le=100, description="The most of the dearest messages.")] = 10,
) -> Report:
    """What the last days cost, by day, model, automation and message; the budgets, and what they refused."""
    return await usage.report(home.ledgers, home.config, days=days, messages=messages)


@router.get("/settings")
async def get_settings(home: Home) -> tuple[Section, ...]:
    """Every setting. Of what may be a secret it is told whether it is set, and never what it is."""
    return settings.sections(home.config)
