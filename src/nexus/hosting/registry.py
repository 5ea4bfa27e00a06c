"""The homes of a host or of a fleet, and who may use them. Commands change it while hosts run.

`LocalRegistry` keeps them in a file of one host, `FleetRegistry` in a Postgres that several hosts share.
Every method waits for the disk or the network: call it on a thread.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Literal, Protocol, Self

from nexus.errors import HomeError, UsageError
from nexus.home import Home
from nexus.hosting.limits import Limits

TokenScope = Literal["full", "read", "admin"]
"""`read` changes nothing. `admin` manages homes, and reads none."""
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_TOKEN_BYTES: Final = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class HostedHome:
    """A home of the host, or of the fleet."""

    id: str
    name: str
    added_at: str
    limits: Limits
    is_open: bool
    keeps_open: bool
    problem: str | None
    host: str | None = None
    """The host that it is placed on; None without a fleet, and before it is first used."""
    moving_to: str | None = None
    """The host that it is to be handed over to."""
    schema: int = 0
    """Of its ledgers: a host that knows less can't open them. 0 without a fleet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """What a token is good for."""

    home_id: str | None
    scope: TokenScope


class Registry(Protocol):
    """The table of homes, their limits and their tokens."""

    root: Path
    """The folder of this host, with the homes that are here."""
    is_shared: ClassVar[bool]
    """Whether several hosts use it."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def add(self, name: str, settings: str | None = None) -> HostedHome:
        """Take a name for a new home. Its folder is made by `hosting.homes`, or on first use in a fleet."""
        ...

    def remove(self, id_: str) -> None:
        """Forget a home and its tokens."""
        ...

    def get(self, id_: str) -> HostedHome | None: ...
    def find(self, name: str) -> HostedHome | None: ...
    def list_homes(self, after: str = "", limit: int = 100) -> list[HostedHome]: ...
    def count(self) -> int: ...

    def find_left_open(self) -> list[str]:
        """What was open when this host was killed, or is kept open."""
        ...

    def load_concurrency(self) -> dict[str, int]:
        """The homes whose concurrency is not the usual one."""
        ...

    def set_limits(self, id_: str, limits: Limits) -> None: ...

    def note_opening(self, id_: str) -> None:
        """A home is about to be opened; recorded before anything is accepted for it."""
        ...

    def note_opened(self, id_: str, *, keeps_open: bool) -> None:
        """A home was opened."""
        ...

    def note_closed(self, id_: str, next_wake: datetime | None = None, *, is_copied: bool = False) -> None:
        """A home was closed, and everything that it accepted is the engine's; with its next schedule."""
        ...

    def find_cold(self, hours: float, limit: int) -> list[HostedHome]:
        """Homes of this host that have been closed for so long, with a complete copy and a folder here."""
        ...

    def note_evicted(self, id_: str) -> bool:
        """The folder of a home is about to be deleted here; its copy is all there is.

        False where it was used since it was found cold: its copy may be incomplete, and its folder stays.
        """
        ...

    def note_failure(self, id_: str, problem: str) -> None:
        """A home could not be opened."""
        ...

    def new_token(self, home_id: str | None, scope: TokenScope, *, rotate: bool = False) -> str:
        """A new token; with `rotate`, those of the same home (or of the host) from before end."""
        ...

    def grant(self, token: str) -> Grant | None:
        """What a token is good for; nothing where it is not known."""
        ...

    def key(self, home_id: str) -> str:
        """What signs the logins of a home's browsers, also while its folder is not here."""
        ...

    def home(self, name: str) -> Home:
        """The folder of a home."""
        return Home(self.root / "homes" / name)

    def get_named(self, name: str) -> HostedHome:
        """The home of that name, or an error that says how to see them all."""
        found = self.find(name)
        if found is None:
            raise HomeError(f"No home named {name}", hint="See `nexus host list`.")
        return found


def check_name(name: str) -> None:
    """Refuse what can't be the name of a home."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} can't be the name of a home",
            hint="Use lower-case letters, digits and hyphens, at most 63: it is a part of a host name.",
        )


def name_taken_error(name: str) -> HomeError:
    return HomeError(f"There is a home named {name}", hint="Choose another name.")


def make_secret() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


def digest_token(token: str) -> bytes:
    # A token has 256 random bits: nobody guesses one from a digest that is quick to make.
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def derive_key(secret: str, name: str, *, of: str = "home") -> str:
    """A key of one home or host, from a secret that all have in common."""
    return hmac.digest(secret.encode(), f"nexus {of} {name}".encode(), "sha256").hex()
