"""How often the writer works, by its own settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from nexus.errors import AutomationError

Mode = Literal["every_turn", "every_n_turns", "before_compaction"]
DEFAULTS: dict[str, Any] = {
    "frequency": "every_turn",
    "n": 5,
    "roles": ["manager", "worker"],
}
# How full a conversation's budget may get before its older part is about to be summarised.
_NEARLY_FULL = 0.75
# Turns that a run failed on are due again, together with the next; older ones are let go.
_AT_ONCE = 5
_ALL = 200


@dataclass(frozen=True, kw_only=True)
class Frequency:
    """When turns are due."""

    mode: Mode
    n: int
    roles: frozenset[str]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Frequency":
        """The settings of the automation, checked."""
        given = {**DEFAULTS, **config}
        mode, n, roles = given["frequency"], given["n"], given["roles"]
        if mode not in get_args(Mode):
            raise AutomationError(
                f"`frequency` is {mode!r}", hint=f"Set it to one of {', '.join(get_args(Mode))}."
            )
        if type(n) is not int or n < 1:
            raise AutomationError(f"`n` is {n!r}", hint="Set it to a whole number of turns.")
        if not isinstance(roles, list):
            raise AutomationError(f"`roles` is {roles!r}", hint='Set it to a list such as ["manager"].')
        return cls(mode=mode, n=n, roles=frozenset(map(str, cast("list[object]", roles))))

    @property
    def most_turns(self) -> int:
        """How many turns one run works on at most."""
        return {"every_turn": _AT_ONCE, "every_n_turns": self.n + _AT_ONCE, "before_compaction": _ALL}[
            self.mode
        ]

    def waits_for(self, due: int, *, used_tokens: int, budget_tokens: int) -> str | None:
        """Why it does not work yet; None: it is time."""
        if self.mode == "every_n_turns" and due < self.n:
            return f"{due} of {self.n} turns"
        if self.mode == "before_compaction" and used_tokens < budget_tokens * _NEARLY_FULL:
            return f"{used_tokens} of {round(budget_tokens * _NEARLY_FULL)} tokens"
        return None
