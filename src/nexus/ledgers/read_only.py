"""A connection over all six ledgers that can read and nothing else, whatever SQL it is given.

The files are opened read-only, `query_only` is on, and SQLite's authorizer permits reading alone: a
statement can neither attach a file again for writing nor turn any of this off.
"""

from typing import Final

import apsw

from nexus.home import Home
from nexus.ledgers import attach

# A query that builds one huge value fails instead of taking the machine's memory.
_LONGEST_VALUE_BYTES: Final = 100 * 1024 * 1024
# How often a long query lets Python look for Ctrl-C.
_STEPS_BETWEEN_SIGNALS: Final = 100_000

_READING: Final = frozenset(
    {
        apsw.SQLITE_SELECT,
        apsw.SQLITE_READ,
        apsw.SQLITE_RECURSIVE,
        apsw.SQLITE_TRANSACTION,
        apsw.SQLITE_SAVEPOINT,
    }
)
_REFUSED_FUNCTIONS: Final = frozenset({"load_extension", "fts3_tokenizer"})
_PRAGMAS_WITH_ARGUMENT: Final = frozenset(
    {
        "foreign_key_check",
        "foreign_key_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "integrity_check",
        "quick_check",
        "table_info",
        "table_list",
        "table_xinfo",
    }
)
_PRAGMAS: Final = _PRAGMAS_WITH_ARGUMENT | {
    "application_id",
    "auto_vacuum",
    "collation_list",
    "compile_options",
    "data_version",
    "database_list",
    "encoding",
    "foreign_keys",
    "freelist_count",
    "function_list",
    "journal_mode",
    "module_list",
    "page_count",
    "page_size",
    "pragma_list",
    "query_only",
    "schema_version",
    "user_version",
}


def connect(home: Home) -> apsw.Connection:
    """Open all six ledgers for reading, for SQL that comes from outside."""
    connection = attach.connect(home)
    try:
        connection.set_progress_handler(lambda: False, _STEPS_BETWEEN_SIGNALS)
        # In memory, so that sorting is bounded by the limit of the process and not by the disk.
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA query_only = ON")
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE_BYTES)
        connection.authorizer = authorize
    except BaseException:
        connection.close()
        raise
    return connection


def authorize(
    action: int, first: str | None, second: str | None, _database: str | None, _within: str | None
) -> int:
    """Permit what only reads. What isn't listed here, and whatever a later SQLite adds, is refused."""
    if action in _READING:
        return apsw.SQLITE_OK
    if action == apsw.SQLITE_FUNCTION:
        return _decision(second not in _REFUSED_FUNCTIONS)
    if action == apsw.SQLITE_PRAGMA:
        name = (first or "").lower()
        return _decision(name in (_PRAGMAS if second is None else _PRAGMAS_WITH_ARGUMENT))
    return apsw.SQLITE_DENY


def _decision(permitted: bool) -> int:
    return apsw.SQLITE_OK if permitted else apsw.SQLITE_DENY
