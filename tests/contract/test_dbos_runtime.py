"""What the engine uses of DBOS's inside is there, in the version that was read."""

import importlib
import importlib.metadata
import inspect
from pathlib import Path

import pytest
import sqlalchemy as sa

from nexus.engine import Settings
from nexus.engine.database import SCHEMA
from nexus.engine.prepare import prepare_database

_PARAMETERS = {
    ("dbos._sys_db", "SystemDatabase.get_workflow_statuses"): ["self", "workflow_ids"],
    ("dbos._core", "execute_dequeued_workflow"): ["dbos", "status", "owner_xid"],
    ("dbos._event_loop", "BackgroundEventLoop.set_main_loop"): ["self"],
    ("dbos._dbos", "_get_dbos_instance"): [],
    ("dbos._context", "current_owner_xid"): ["workflow_id", "ctx"],
}

_COLUMNS = {
    "workflow_status": {
        "workflow_uuid",
        "status",
        "name",
        "queue_name",
        "queue_partition_key",
        "priority",
        "recovery_attempts",
        "application_version",
        "application_name",
        "serialization",
        "attributes",
        "delay_until_epoch_ms",
        "created_at",
        "updated_at",
        "executor_id",
        "owner_xid",
        "started_at_epoch_ms",
        "completed_at",
    },
    "workflow_input": {"workflow_uuid", "inputs"},
    "workflow_output": {"workflow_uuid", "output", "error"},
    "operation_outputs": {
        "workflow_uuid",
        "function_id",
        "function_name",
        "error",
        "started_at_epoch_ms",
        "completed_at_epoch_ms",
    },
}


def test_the_installed_version_is_the_one_that_was_read() -> None:
    assert importlib.metadata.version("dbos") == "3.3.0"


@pytest.mark.parametrize(("module", "name"), _PARAMETERS)
def test_private_functions_take_what_they_took(module: str, name: str) -> None:
    found: object = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found)
    assert list(inspect.signature(found).parameters) == _PARAMETERS[module, name]


def test_the_tables_have_the_columns_that_our_statements_name(database: str) -> None:
    is_url = database.startswith("postgres")
    opened = prepare_database(Settings(database=database if is_url else Path(database)))
    inspector = sa.inspect(opened.engine)
    for table, columns in _COLUMNS.items():
        there = {column["name"] for column in inspector.get_columns(table, schema=SCHEMA if is_url else None)}
        assert columns <= there
    opened.close()
