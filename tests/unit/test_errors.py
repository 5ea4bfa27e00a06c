"""The tree of errors."""

import inspect
import re

from nexus import errors
from nexus.errors import NexusError


def _classes() -> list[type[NexusError]]:
    found = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    ours = [kind for kind in found if issubclass(kind, NexusError)]
    assert ours == found
    return ours


def test_the_exported_errors_are_these() -> None:
    assert sorted(kind.__name__ for kind in _classes()) == [
        "AccessError",
        "AgentError",
        "AutomationError",
        "BudgetError",
        "CareError",
        "ConfigError",
        "FencedError",
        "GatewayError",
        "HomeBusyError",
        "HomeError",
        "HomeMissingError",
        "LedgerBusyError",
        "LedgerClosedError",
        "LedgerCorruptError",
        "LedgerError",
        "LedgerFullError",
        "LimitError",
        "MissingError",
        "ModelError",
        "ModelFileError",
        "ModelRefusedError",
        "NexusError",
        "SandboxError",
        "SchemaError",
        "ScriptChangedError",
        "ScriptError",
        "SecretError",
        "StoppedError",
        "ToolError",
        "UnknownAutomationError",
        "UnknownHookPointError",
        "UnusableAnswerError",
        "UsageError",
        "WorkspaceError",
    ]


def test_the_tree_at_the_top_of_the_file_is_the_real_one() -> None:
    drawn: dict[str, str] = {}
    above: dict[int, str] = {}
    for indent, name in re.findall(r"^([│├└─ ]*)(\w+Error)\b", errors.__doc__ or "", re.MULTILINE):
        depth = len(indent) // 4
        above[depth] = name
        if depth:
            drawn[name] = above[depth - 1]
    real = {
        kind.__name__: kind.__base__.__name__
        for kind in _classes()
        if kind.__base__ and kind is not NexusError
    }
    assert drawn == real


def test_a_message_and_its_hint_are_kept_apart_and_printed_together() -> None:
    error = errors.HomeMissingError("There is no home", hint="Run `nexus init`.")
    assert (error.message, error.hint) == ("There is no home", "Run `nexus init`.")
    assert str(error) == "There is no home\nRun `nexus init`."


def test_an_error_without_a_hint_is_its_message() -> None:
    assert str(errors.CareError("It failed")) == "It failed"


def test_every_error_says_when_it_is_raised() -> None:
    assert all((kind.__doc__ or "").strip().endswith(".") for kind in _classes())


_TYPES = """
access agent automation budget care config fenced gateway home home-busy home-missing ledger ledger-busy
ledger-closed ledger-corrupt ledger-full limit missing model model-file model-refused nexus sandbox schema
script script-changed secret stopped tool unknown-automation unknown-hook-point unusable-answer usage
workspace
"""


def test_the_types_of_errors_over_http_stay_the_same() -> None:
    types = [kind.type.removeprefix("urn:nexus:error:") for kind in _classes()]
    assert sorted(types) == sorted(_TYPES.split())
