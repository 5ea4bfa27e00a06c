"""What is known about the inside of DBOS is known in one file, so that an upgrade is read in one place."""

import re
from pathlib import Path

import nexus
from nexus.engine import interior

_SOURCE = Path(nexus.__file__).parent
_ROOT = _SOURCE.parents[1]
_NAMES = re.compile(
    r"\b(workflow_(status|inputs?|outputs?|uuid|events|streams)|operation_outputs|queue_partition_key"
    r"|owner_xid|recovery_attempts|MAX_RECOVERY_ATTEMPTS_EXCEEDED"
    r"|(from|import) dbos|dbos\._\w+|_sys_db|_get_dbos_instance)\b"
)


def _naming(folder: Path) -> set[Path]:
    suffixes = {".py", ".sql", ".sh"}
    files = [path for path in folder.rglob("*") if path.suffix in suffixes]
    assert files
    return {path for path in files if _NAMES.search(path.read_text(encoding="utf-8"))}


def test_one_file_of_the_program_names_tables_and_private_functions_of_dbos() -> None:
    assert _naming(_SOURCE) == {Path(interior.__file__)}


def test_beside_it_only_what_is_about_bare_dbos_imports_it() -> None:
    found = _naming(_ROOT / "scripts") | _naming(_ROOT / "bench") | _naming(_ROOT / "examples")
    assert {path.relative_to(_ROOT).as_posix() for path in found if path.parent.name != "upstream"} <= {
        "bench/engine.py"
    }
