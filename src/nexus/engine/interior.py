"""The only file that uses DBOS's private interfaces (3.3.0), each for something its public ones lack.

- `get_workflow_statuses` and `execute_dequeued_workflow`: run what we claimed, on its record
- `_background_event_loop.set_main_loop`: run it on the loop of the program
- `_workflow_tasks`, `_executor`: know what runs, and leave the loop's threads as they were
- `record_operation_result` and `update_workflow_outcome`: wait while the disk is full

`tests/contract/test_interior.py` fails when one of them changes.
"""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false
# ruff: noqa: SLF001

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any

from dbos import DBOS, Serializer
from dbos import error as dbos_error
from dbos._core import execute_dequeued_workflow
from dbos._dbos import _get_dbos_instance
from sqlalchemy.exc import DBAPIError

from nexus.engine import serializer
from nexus.engine.database import APPLICATION, SCHEMA, Database
from nexus.engine.errors import EngineStateError
from nexus.engine.failures import is_full
from nexus.engine.settings import Settings
from nexus.engine.tables import WORKFLOW

NotOwnerError = dbos_error.DBOSWorkflowConflictIDError
"""Raised by a step whose result could not be recorded, because another executor owns the execution."""

Body = Callable[[str, str, Any, dict[str, Any]], Awaitable[Any]]
"""The execution's id, the work's name, its payload and options."""

_FULL_PAUSE_S = 1.0
_log = logging.getLogger(__name__)
_body: Body | None = None


class _Plain(Serializer):
    """Our format, under DBOS's interface."""

    def serialize(self, data: Any) -> str:
        return serializer.dumps(data)

    def deserialize(self, serialized_data: str) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return serializer.loads(serialized_data)

    def name(self) -> str:
        return serializer.NAME


# `tables.count_crashes` gives up on deadly work. DBOS's own limit counts every start.
@DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)
async def _execution(work: str, payload: Any, options: dict[str, Any]) -> Any:
    assert _body is not None  # noqa: S101 - an invariant, for the reader and the type checker
    assert DBOS.workflow_id is not None  # noqa: S101 - an invariant, for the reader and the type checker
    return await _body(DBOS.workflow_id, work, payload, options)


def migrate(url: str) -> None:
    """Make or upgrade DBOS's tables."""
    logging.getLogger("dbos").setLevel(logging.CRITICAL)
    DBOS.migrate(url.replace("+psycopg", ""), schema=SCHEMA)


class Interior:
    """DBOS, running in this process. There is one for each process, because DBOS is global."""

    def __init__(self, database: Database, settings: Settings, executor_id: str, body: Body) -> None:
        global _body  # noqa: PLW0603 - DBOS has one registry for the process, and calls functions by name
        if _body is not None:
            raise EngineStateError(
                "This process has an engine already", hint="Stop it first, or use that one for all homes."
            )
        _body = body
        self._stopping = threading.Event()
        logging.getLogger("dbos").setLevel(logging.CRITICAL)
        DBOS(
            config={
                "name": APPLICATION,
                "system_database_url": database.url.replace("+psycopg", ""),
                "system_database_engine": database.engine,
                "dbos_system_schema": SCHEMA,
                "application_version": settings.version,
                "executor_id": executor_id,
                "serializer": _Plain(),
                "log_level": "CRITICAL",
                "run_migrations": False,
            }
        )
        # Claims are made by our own sweeps; DBOS polls no queue.
        DBOS.listen_queues([])

    def launch(self) -> None:
        """Blocking: run it in a thread."""
        DBOS.launch()
        system = _get_dbos_instance()._sys_db
        for name in ("record_operation_result", "update_workflow_outcome"):
            setattr(system, name, self._patient(getattr(system, name)))

    def adopt_loop(self) -> None:
        """Bodies run on the loop that calls this."""
        _get_dbos_instance()._background_event_loop.set_main_loop()

    def run(self, claimed: list[str], owner: str) -> list[str]:
        """Start the bodies of what was claimed; returns which. Blocking: run it in a thread."""
        dbos = _get_dbos_instance()
        begun: list[str] = []
        for status in dbos._sys_db.get_workflow_statuses(claimed):
            if status["status"] != "PENDING":
                continue
            try:
                execute_dequeued_workflow(dbos, status, owner)
                begun.append(status["workflow_uuid"])
            except Exception as error:  # DBOS has recorded it as failed
                _log.warning("%s could not be started: %s", status["workflow_uuid"], error)
        return begun

    async def stop(self) -> None:
        """End DBOS's threads, and give the loop an executor that still works."""
        global _body  # noqa: PLW0603 - see __init__
        self._stopping.set()
        loop = asyncio.get_running_loop()
        fresh = ThreadPoolExecutor(thread_name_prefix="asyncio")
        loop.set_default_executor(fresh)
        await loop.run_in_executor(fresh, DBOS.destroy)
        _body = None

    def _patient(self, record: Callable[..., Any]) -> Callable[..., Any]:
        """Wait for room on the disk, as DBOS does for a database that is away.

        DBOS would record the full disk as the outcome of the step or of the execution instead.
        """

        @wraps(record)
        def recorded(*arguments: Any, **options: Any) -> Any:
            while True:
                try:
                    return record(*arguments, **options)
                except DBAPIError as error:
                    if not is_full(error):
                        raise
                    _log.warning("the engine waits for room on its disk: %s", error.orig)
                    if self._stopping.wait(_FULL_PAUSE_S):
                        raise

        return recorded


async def step(name: str, function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """Run a function once: its result is recorded, and a later run gets the record.

    DBOS numbers steps as they are started, before anything is awaited: steps that run side by side have
    their numbers from the order of their calls.
    """

    # DBOS would run what does not look like a coroutine function (a callable object) in a thread.
    async def call() -> Any:
        return await function(*arguments)

    return await DBOS.run_step_async({"name": name}, call)
