"""What a hook point fires with."""

from dataclasses import asdict, dataclass
from typing import Any

from nexus.automations.context import Result
from nexus.automations.wire import request_from_json, request_to_json
from nexus.context import AssembledContext
from nexus.request import Request


@dataclass(kw_only=True)
class Occasion:
    """The request, and what there is beside it at that moment."""

    request: Request
    assembled: AssembledContext | None = None
    result: Result | None = None
    key: str | None = None
    """An id that stays the same when the occasion is repeated after a crash: async automations that were
    asked for then are not asked for again."""

    def to_json(self) -> dict[str, Any]:
        return {
            "request": request_to_json(self.request),
            "assembled": self.assembled and self.assembled.to_json(),
            "result": self.result and asdict(self.result),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Occasion":
        assembled, result = value["assembled"], value["result"]
        return cls(
            request=request_from_json(value["request"]),
            assembled=assembled and AssembledContext.from_json(assembled),
            result=result and Result.from_json(result),
        )
