"""The migrations of a later release, made up: what files of today's schema go through then."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from nexus.home import LEDGERS
from nexus.ledgers import health, migrate, sql, tables

_REBUILD = """
CREATE TABLE new_models (
  name        TEXT PRIMARY KEY,
  address     TEXT NOT NULL,
  known_json  TEXT NOT NULL,
  updated_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  note        TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO new_models (name, address, known_json, updated_at) SELECT * FROM models;
DROP TABLE models;
ALTER TABLE new_models RENAME TO models;
"""
_STEPS = (
    ("add_mood", "ALTER TABLE automations ADD COLUMN mood TEXT;\nUPDATE automations SET mood = 'calm';"),
    ("rebuild_models", _REBUILD),
    ("index_mood", "CREATE INDEX automations_mood ON automations (mood, name);"),
)
_migrations, _text = sql.migrations, sql.text
_RELEASED = {ledger: sql.migrations(ledger) for ledger in LEDGERS}


def migrations(ledger: str) -> tuple[tuple[int, str, str], ...]:
    """Every migration as that release has it: three more of the runtime ledger."""
    released = _RELEASED[ledger]
    if ledger != "runtime":
        return released
    numbered = enumerate(_STEPS, start=released[-1][0] + 1)
    return released + tuple((number, f"{number:04}_{name}", script) for number, (name, script) in numbered)


def text(ledger: str, file: str) -> str:
    """The files as that release has them."""
    found = _text(ledger, file)
    if (ledger, file) == ("runtime", "schema.sql"):
        return found + "".join(script for _, script in _STEPS)
    return found


@contextmanager
def installed() -> Generator[None]:
    """Be that release."""
    caches: tuple[Any, ...] = (
        migrate._replay,  # pyright: ignore[reportPrivateUsage]
        health._load_expected,  # pyright: ignore[reportPrivateUsage]
        tables.load_expected,
    )
    sql.migrations, sql.text = migrations, text
    try:
        yield
    finally:
        sql.migrations, sql.text = _migrations, _text
        for cache in caches:
            cache.cache_clear()
