"""Answers by a JSON schema: asked for natively where a model takes one, in words otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition

from nexus.broker.agent.models import Candidate
from nexus.ledgers.runtime.models import Capabilities

_NAME: Final = "answer"


@dataclass(frozen=True, kw_only=True)
class Form:
    """The form that the answers of a run have. The text of an answer is still the caller's to read."""

    schema: Mapping[str, Any]

    def asked_of(
        self, candidate: Candidate, known: Capabilities, parameters: ModelRequestParameters
    ) -> ModelRequestParameters:
        """The parameters of a request that asks for this form, unless the server refuses schemas."""
        if known.structured_output == "none":
            return parameters
        mode = "native" if candidate.model.profile.get("supports_json_schema_output", False) else "prompted"
        wanted = OutputObjectDefinition(json_schema=dict(self.schema), name=_NAME, strict=True)
        return replace(parameters, output_mode=mode, output_object=wanted)


def may_refuse_form(known: Capabilities, error: Exception) -> bool:
    """Whether a request may succeed without the schema."""
    return known.structured_output != "none" and getattr(error, "status_code", None) in {400, 422, 501}
