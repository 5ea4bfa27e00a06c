"""What is known about the inside of DBOS is known in two files, so that an upgrade is read there."""

import re
from pathlib import Path

import nexus
from nexus.engine import dbos_runtime, store

_SOURCE = Path(nexus.__file__).parent
_ROOT = _SOURCE.parents[1]
_FUNCTIONS = re.compile(r"(\b(from|import) dbos|\bdbos\._\w+|\b_sys_db|\b_get_dbos_instance)\b")
_TABLES = re.compile(
    r"\b(workflow_(status|inputs?|outputs?|uuid|events|streams)|operation_outputs|queue_partition_key"
    r"|owner_xid|recovery_attempts|MAX_RECOVERY_ATTEMPTS_EXCEEDED)\b"
)
_MOST_LINES = 250


def _naming(folder: Path, names: re.Pattern[str]) -> set[Path]:
    suffixes = {".py", ".sql", ".sh"}
    files = [path for path in folder.rglob("*") if path.suffix in suffixes]
    assert files
    return {path for path in files if names.search(path.read_text(encoding="utf-8"))}


def test_one_short_file_of_the_program_calls_dbos() -> None:
    file = Path(dbos_runtime.__file__)
    assert _naming(_SOURCE, _FUNCTIONS) == {file}
    assert len(file.read_text().splitlines()) <= _MOST_LINES


def test_one_file_of_the_program_names_its_tables_beside_the_status_that_a_call_answers_with() -> None:
    assert _naming(_SOURCE, _TABLES) == {Path(store.__file__), Path(dbos_runtime.__file__)}


def test_two_files_of_the_program_tell_its_databases_apart() -> None:
    found = {path.name for path in _SOURCE.rglob("*.py") if "is_postgres" in path.read_text(encoding="utf-8")}
    assert found == {"settings.py", "database.py"}


def test_beside_it_only_what_is_about_bare_dbos_imports_it() -> None:
    folders = [_ROOT / name for name in ("scripts", "bench", "examples")]
    found = {path for folder in folders for names in (_FUNCTIONS, _TABLES) for path in _naming(folder, names)}
    assert {path.relative_to(_ROOT).as_posix() for path in found if path.parent.name != "upstream"} <= {
        "bench/engine.py"
    }
