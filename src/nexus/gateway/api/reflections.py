"""Reflections: questions that a model answers from the memory, with sources."""

from pydantic import BaseModel, Field

from nexus.gateway.dependencies import ServedApp, api_router
from nexus.results import Reflection

router = api_router("reflections", "/reflections")


class NewReflection(BaseModel):
    """A question to the memory."""

    question: str = Field(min_length=1, max_length=4_000, pattern=r"\S")
    save_as: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        pattern=r"\S",
        description="Name of the mental model that keeps the answer.",
    )
    model: str = Field(
        default="", max_length=200, description="`provider/model` to use. Empty: the configured one."
    )


class Refresh(BaseModel):
    """A mental model to answer again."""

    mental_model: str = Field(min_length=1, max_length=500, description="Its id or name.")
    model: str = Field(
        default="", max_length=200, description="`provider/model` to use. Empty: the configured one."
    )


@router.post("", status_code=201)
async def reflect(app: ServedApp, new: NewReflection) -> Reflection:
    """Answer a question from the memory, with sources. Returns when the model has answered."""
    return await app.reflect(new.question, save_as=new.save_as, model=new.model)


@router.post("/refresh", status_code=201)
async def refresh(app: ServedApp, wanted: Refresh) -> Reflection:
    """Make the next version of a mental model."""
    return await app.refresh(wanted.mental_model, model=wanted.model)
