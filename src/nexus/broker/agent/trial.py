"""One question to one model, to see whether it can be used."""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from nexus.broker.agent.advice import advice
from nexus.broker.agent.answering import Answering
from nexus.broker.agent.asking import told
from nexus.broker.agent.models import Models
from nexus.broker.agent.records import Attempt
from nexus.broker.streams import Stream
from nexus.config import Config
from nexus.errors import ModelError

_QUESTION = "Answer with the one word: ready"


async def tried(config: Config, name: str, environ: Mapping[str, str] = os.environ) -> Attempt:
    """The bill of an answer; an error that says what to do where there is none. It is asked once."""
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(_QUESTION)])]
    async with Models(config, environ) as models:
        (candidate,) = await models.candidates((name,))
        unheard = Stream(Path(os.devnull), lambda: None)
        answering = Answering(candidate, unheard)
        try:
            await answering.run(messages, ModelRequestParameters())
        except Exception as error:  # whatever a client raises
            raise ModelError(
                f"{name} does not answer: {models.redact(told(error))}", hint=advice(error, candidate)
            ) from error
        finally:
            unheard.close()
        return answering.attempt(None)
