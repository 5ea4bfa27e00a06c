"""The only file that knows private functions of DBOS (3.3.0), each for something the public ones lack:

- `get_workflow_statuses` and `execute_dequeued_workflow` run what we claimed under the claim's own token, so
  that code which has not stopped yet can't record anything once its work was given back.
- `set_main_loop` runs it on the program's loop. `launch` adopts the loop that calls it, but also writes to
  the database, which may take seconds and must not happen on a loop.
- `_workflow_timeout_stop_event` and `_run_background_processes` end the threads that look every second for
  what we don't use: DBOS's queues, schedules, timeouts and messages.
- `record_operation_result` and `update_workflow_outcome` are wrapped to wait while the disk is full.

`store` knows its tables. `tests/contract/test_dbos_runtime.py` fails when one of these changes, and
`tests/unit/engine/test_surface.py` when another file names one. DBOS takes half a second to import, so it is
imported when it is first used.
"""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false
# ruff: noqa: SLF001

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.exc import DBAPIError

from nexus.engine import serializer
from nexus.engine.database import APPLICATION, SCHEMA, Database, is_full
from nexus.engine.errors import EngineStateError
from nexus.engine.settings import Settings
from nexus.engine.store import WORKFLOW

if TYPE_CHECKING:
    from dbos import DBOS

_FULL_PAUSE_S = 1.0
_log = logging.getLogger(__name__)
T = TypeVar("T")

Body = Callable[[str, str, Any, dict[str, Any]], Awaitable[Any]]
"""The execution's id, the work's name, its payload and options."""

_body: Body | None = None


class NotOwnerError(Exception):
    """Raised by a step whose result could not be recorded, because another executor owns the execution."""


class StaleStepsError(Exception):
    """Raised by a step whose record is another step's, or can't be read: other code has recorded it."""


async def _execution(work: str, payload: Any, options: dict[str, Any]) -> Any:
    """The one workflow that DBOS knows."""
    id_ = _dbos().workflow_id
    assert _body is not None  # noqa: S101 - an invariant, for the reader and the type checker
    assert id_ is not None  # noqa: S101 - an invariant, for the reader and the type checker
    return await _body(id_, work, payload, options)


@cache
def _dbos() -> "type[DBOS]":
    from dbos import DBOS

    logging.getLogger("dbos").setLevel(logging.CRITICAL)
    # `store.take_over` gives up on deadly work. DBOS's own limit counts every start.
    DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(_execution)
    return DBOS


def migrate(url: str) -> None:
    """Make or upgrade DBOS's tables. Blocking: run it in a thread, because it also imports DBOS."""
    _dbos().migrate(url.replace("+psycopg", ""), schema=SCHEMA)


def check_unused() -> None:
    """Refuse a second engine in one process."""
    if _body is not None:
        raise EngineStateError(
            "This process answers for another home already",
            hint="Open others with `App.open(home, serve=False)`, or serve many with `nexus host serve`.",
        )


class DbosRuntime:
    """DBOS, running in this process. There is one for each process, because DBOS is global."""

    def __init__(self, database: Database, settings: Settings, executor_id: str, body: Body) -> None:
        global _body  # noqa: PLW0603 - DBOS has one registry for the process, and calls functions by name
        check_unused()
        self._stopping = threading.Event()
        dbos = _dbos()
        dbos(
            config={
                "name": APPLICATION,
                "system_database_url": database.url.replace("+psycopg", ""),
                "system_database_engine": database.engine,
                "dbos_system_schema": SCHEMA,
                "application_version": settings.version,
                "executor_id": executor_id,
                "serializer": _plain(),
                "log_level": "CRITICAL",
                "run_migrations": False,
            }
        )
        # Claims are made by our own sweeps; DBOS polls no queue.
        dbos.listen_queues([])
        _body = body

    def launch(self) -> None:
        """Blocking: run it in a thread."""
        from dbos._dbos import _get_dbos_instance

        _dbos().launch()
        instance = _get_dbos_instance()
        system = instance._sys_db
        for event in (*instance.background_thread_stop_events, instance._workflow_timeout_stop_event):
            event.set()
        system._run_background_processes = False
        for name in ("record_operation_result", "update_workflow_outcome"):
            setattr(system, name, self._patient(getattr(system, name)))

    def adopt_loop(self) -> None:
        """Bodies run on the loop that calls this."""
        from dbos._dbos import _get_dbos_instance

        _get_dbos_instance()._background_event_loop.set_main_loop()

    def run(self, claimed: list[str], owner: str) -> list[str]:
        """Start the bodies of what was claimed; returns which. Blocking: run it in a thread."""
        from dbos._core import execute_dequeued_workflow
        from dbos._dbos import _get_dbos_instance

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
        await loop.run_in_executor(fresh, _dbos().destroy)
        _body = None

    def _patient(self, record: Callable[..., Any]) -> Callable[..., Any]:
        """Wait for room on the disk, as DBOS does for a database that is away.

        DBOS would record the full disk as the outcome of the step or of the execution instead.
        """

        @wraps(record)
        def record_patiently(*arguments: Any, **options: Any) -> Any:
            while True:
                try:
                    return record(*arguments, **options)
                except DBAPIError as error:
                    if not is_full(error):
                        raise
                    _log.warning("the engine waits for room on its disk: %s", error.orig)
                    if self._stopping.wait(_FULL_PAUSE_S):
                        raise

        return record_patiently


async def step(name: str, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function once: its result is recorded, and a later run gets the record.

    DBOS numbers steps as they are started, before anything is awaited: steps that run side by side have
    their numbers from the order of their calls. What does not look like a coroutine function (a callable
    object) DBOS would run in a thread.
    """
    from dbos import error

    try:
        return await _dbos().run_step_async({"name": name}, function)
    except error.DBOSWorkflowConflictIDError:
        raise NotOwnerError from None
    except (error.DBOSUnexpectedStepError, serializer.UnreadableError) as stale:
        raise StaleStepsError(str(stale)) from None


def _plain() -> Any:
    """Our format, under DBOS's interface."""
    from dbos import Serializer

    class Plain(Serializer):
        def serialize(self, data: Any) -> str:
            return serializer.dumps(data)

        def deserialize(self, serialized_data: str) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            return serializer.loads(serialized_data)

        def name(self) -> str:
            return serializer.NAME

    return Plain()
