"""The states of an execution."""

from typing import Final, Literal

State = Literal["queued", "delayed", "running", "done", "failed", "timeout", "cancelled"]
FINAL: Final[frozenset[State]] = frozenset({"done", "failed", "timeout", "cancelled"})
