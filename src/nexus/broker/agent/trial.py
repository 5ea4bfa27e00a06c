"""One question to one model, outside of any request: to see whether it can be used, or as a judge."""

import os
from collections.abc import Mapping

from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

from nexus.broker.agent.advice import advice
from nexus.broker.agent.answering import Answering, Asked
from nexus.broker.agent.asking import told
from nexus.broker.agent.fitting import length_bytes
from nexus.broker.agent.models import Models
from nexus.broker.agent.records import Attempt
from nexus.config import Config
from nexus.errors import ModelError
from nexus.runs import Delta

_QUESTION = "Answer with the one word: ready"


class _Nobody:
    """Nobody waits for the pieces."""

    def publish(self, delta: Delta) -> None:
        pass


async def tried(config: Config, name: str, environ: Mapping[str, str] = os.environ) -> Attempt:
    """The bill of an answer; an error that says what to do where there is none. It is asked once."""
    async with Models(config, environ) as models:
        return (await asked(models, name, _QUESTION))[1]


async def asked(models: Models, name: str, question: str) -> tuple[str, Attempt]:
    """What a model answers, and the bill; an error that says what to do where it does not answer."""
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(question)])]
    (candidate,) = await models.candidates((name,))
    answering = Answering(candidate, _Nobody(), Asked(messages=messages, length_bytes=length_bytes(messages)))
    try:
        answer = await answering.run()
    except Exception as error:  # whatever a client raises
        raise ModelError(
            f"{name} failed: {told(error, models.redact)}", hint=advice(error, candidate)
        ) from error
    return answer.text or "", answering.attempt(None)
