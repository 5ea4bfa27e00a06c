"""What came of a run, as it is stored and as whoever asked for it gets it."""

from dataclasses import asdict, dataclass
from typing import Any, Self

from nexus.ledgers.runtime.usage import Totals


@dataclass(frozen=True, kw_only=True)
class Response:
    """What the agent answered, and which model did."""

    content: str
    model: str | None = None


@dataclass(frozen=True, kw_only=True)
class Result:
    """A finished run."""

    execution_id: str
    request_id: str
    response: Response
    usage: Totals
    """What this run cost; what its workers did is below its request."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        fields: dict[str, Any] = {
            **value,
            "response": Response(**value["response"]),
            "usage": Totals(**value["usage"]),
        }
        return cls(**fields)
