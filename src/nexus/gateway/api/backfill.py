"""Backfill: learning from imported histories, with an estimate, a sample, a pace and a budget."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from nexus.gateway.dependencies import ServedApp, api_router
from nexus.ledgers.memory import backfills
from nexus.ledgers.memory.backfills import Limits
from nexus.runs import MICRO

router = api_router("backfill", "/backfill")
_LARGEST = 2**53
Whole = Annotated[int, Field(ge=1, le=_LARGEST)]


class Pace(BaseModel):
    """How fast and for how much. Without a value there is no limit."""

    per_hour: Whole | None = Field(default=None, description="Maximum episodes per hour.")
    budget_usd: float | None = Field(
        default=None, gt=0, le=1e9, description="Pause after this many US dollars."
    )
    budget_tokens: Whole | None = Field(default=None, description="Pause after this many tokens.")

    def limits(self) -> Limits:
        return Limits(
            episodes_an_hour=self.per_hour,
            budget_microusd=None if self.budget_usd is None else max(1, round(self.budget_usd * MICRO)),
            budget_tokens=self.budget_tokens,
        )

    def is_empty(self) -> bool:
        return self.limits() == Limits()


class What(Pace):
    """Which imports to read, and how."""

    import_id: str | None = Field(default=None, max_length=60, description="One import. Default: all.")


class Start(What):
    """A backfill to start."""

    order: Literal["newest", "oldest", "relevant"] = Field(
        default="newest", description="Which episodes come first; `relevant`: those in which you wrote most."
    )


class Sample(BaseModel):
    """A sample to take."""

    import_id: str | None = Field(default=None, max_length=60)
    count: int = Field(default=20, ge=1, le=100)


class Expected(BaseModel):
    """What a backfill is expected to take."""

    episodes: int
    messages: int
    calls: int
    tokens: int
    input_tokens: int = Field(description="Cached ones included.")
    cached_tokens: int
    output_tokens: int
    cost_microusd: int | None = Field(description="Null if the price is unknown.")
    seconds: int | None = Field(description="Null if neither the model's speed nor a pace is known.")
    model: str
    measured: int = Field(description="Episodes read by the model already, from which the rest is projected.")


class Sampled(BaseModel):
    """An episode, and what would be stored from it."""

    episode_id: str
    start: str
    channel: str
    title: str | None
    messages: list[dict[str, Any]]
    facts: list[dict[str, Any]]
    refused: list[str]


class Progress(BaseModel):
    """How far a backfill has come."""

    waiting: int
    done: int
    skipped: int
    failed: int
    facts: int
    refused: int
    input_tokens: int
    output_tokens: int
    cost_microusd: int


class Backfill(BaseModel):
    """A backfill."""

    id: str
    import_id: str | None
    sort: str
    status: Literal["running", "paused", "done", "canceled"]
    reason: str | None = Field(description="Why it is paused.")
    limits: dict[str, int | None]
    estimate: dict[str, Any]
    created_at: str
    updated_at: str
    completed_at: str | None
    progress: Progress


@router.get("")
async def get_backfill(app: ServedApp) -> Backfill | None:
    """The last backfill; null if there is none."""
    found = await app.backfill.latest()
    return _describe(found) if found else None


@router.post("", status_code=201)
async def start_backfill(app: ServedApp, start: Start) -> Backfill:
    """Start reading one import, or all of them."""
    return _describe(await app.backfill.start(start.import_id, sort=start.order, limits=start.limits()))


@router.post("/estimate")
async def estimate_backfill(app: ServedApp, what: What) -> Expected:
    """Estimate episodes, tokens, cost and time. No model is called."""
    found = await app.backfill.estimate(what.import_id, what.limits())
    return Expected(**found.to_json())


@router.post("/sample")
async def sample_backfill(app: ServedApp, sample: Sample) -> list[Sampled]:
    """Show what the model would store of a few random episodes. Nothing is stored."""
    found = await app.backfill.sample(sample.import_id, sample.count)
    return [Sampled(**asdict(each)) for each in found]


@router.post("/pause")
async def pause_backfill(app: ServedApp) -> Backfill:
    """Pause after the episodes that are being read."""
    return _describe(await app.backfill.pause())


@router.post("/resume")
async def resume_backfill(app: ServedApp, pace: Pace | None = None) -> Backfill:
    """Resume, and retry what failed. Given limits replace all earlier ones."""
    limits = pace.limits() if pace and not pace.is_empty() else None
    return _describe(await app.backfill.resume(limits))


@router.post("/cancel")
async def cancel_backfill(app: ServedApp) -> Backfill:
    """End the backfill. What was learned stays."""
    return _describe(await app.backfill.cancel())


def _describe(found: backfills.Backfill) -> Backfill:
    values = asdict(found)
    del values["round"]
    return Backfill(**values)
