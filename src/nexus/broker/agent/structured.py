"""Answers by a JSON schema: asked for natively where a model takes one, in words otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition

from nexus.broker.agent.models import Candidate

_NAME: Final = "answer"


@dataclass(frozen=True, kw_only=True)
class Form:
    """The form that the answers of a run have. The text of an answer is still the caller's to read."""

    schema: Mapping[str, Any]
    refused_by: set[str]
    """The models that turned out not to take a schema. Shared by all runs of a home."""

    def asked_of(self, candidate: Candidate, parameters: ModelRequestParameters) -> ModelRequestParameters:
        """The parameters of a request that asks for this form."""
        if candidate.name in self.refused_by:
            return parameters
        mode = "native" if candidate.model.profile.get("supports_json_schema_output", False) else "prompted"
        wanted = OutputObjectDefinition(json_schema=dict(self.schema), name=_NAME, strict=True)
        return replace(parameters, output_mode=mode, output_object=wanted)

    def is_refused(self, candidate: Candidate, error: Exception) -> bool:
        """Whether a request may succeed without the schema, which is then no longer sent to this model."""
        if candidate.name in self.refused_by or getattr(error, "status_code", None) not in {400, 422, 501}:
            return False
        self.refused_by.add(candidate.name)
        return True
