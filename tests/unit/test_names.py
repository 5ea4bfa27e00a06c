"""The public names: adding one is a decision, losing one breaks other people's programs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import nexus
from nexus import channels, errors, home, ledgers, testing

_ROOT = Path(__file__).parents[2]
_API = """
Adapter Answer App AsyncMemory Client Config Context Delta Erasure Fact HOOK_POINTS Hit Home HookPoint
Item Match Matches Memory Query Recall Receipt Recorded Reflection Response Result Run RunState Source
StoredFact Successor
Totals Trace TraceStep WaitingCall testing AccessError AgentError AutomationError
BudgetError CareError ConfigError FencedError GatewayError HomeBusyError HomeError HomeMissingError
LedgerBusyError LedgerClosedError LedgerCorruptError LedgerError LedgerFullError LimitError
MissingError ModelError ModelFileError ModelRefusedError NexusError SandboxError SchemaError
ScriptChangedError ScriptError SecretError StoppedError ToolError UnknownAutomationError
UnknownHookPointError UnusableAnswerError UsageError WorkspaceError automation channel tool
"""
_TESTING = """
AdapterContract Answer BrokenEvent Caching Cut Drip ErrorEvent Exchange Gate Hold HttpError Kit
ModelRequest ModelServer PROFILES Pace Price Profile Prompt RecordingInbox RetryAfter Rule Silence Stall Step
TokenLogprob ToolCall Totals Turn Usage echo failures shared_prefix_tokens tokens_in
"""


def test_the_package_has_a_version() -> None:
    assert nexus.__version__.count(".") == 2


def test_the_public_names_are_these() -> None:
    assert sorted(nexus.__all__) == sorted(_API.split())
    assert all(getattr(nexus, name) is not None for name in nexus.__all__)
    assert set(nexus.__all__) <= set(dir(nexus))


def test_the_public_names_of_testing_are_these() -> None:
    assert sorted(testing.__all__) == sorted(_TESTING.split())
    assert all(hasattr(testing, name) for name in testing.__all__)


def test_every_error_is_public() -> None:
    kinds = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert kinds <= set(nexus.__all__)
    assert nexus.NexusError is errors.NexusError


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Agent'"):
        _ = nexus.Agent  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]


def test_a_deprecated_name_works_and_says_what_takes_its_place() -> None:
    with pytest.warns(DeprecationWarning, match=r"goes away in 0\.3: use the decorator `nexus\.automation`"):
        assert nexus.Plugin is type(nexus.automation("finalize")(print))  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]


def test_importing_the_package_imports_nothing_else_of_it() -> None:
    program = "import nexus, sys; print(*sorted(name for name in sys.modules if name.startswith('nexus')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["nexus"]


@pytest.mark.parametrize(
    "script", sorted((_ROOT / "examples").rglob("*.py")), ids=lambda path: str(path.relative_to(_ROOT))
)
def test_examples_import_public_names_only(script: Path) -> None:
    tree = ast.parse(script.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "nexus":
            module = node.module or ""
            if module.startswith("nexus.integrations."):
                continue
            assert module in {"nexus", "nexus.channels", "nexus.testing"}
            public = {*nexus.__all__, *channels.__all__, *testing.__all__}
            assert {alias.name for alias in node.names} <= public
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
            assert not {name for name in names if name.startswith("nexus.")} - {"nexus.testing"}


def test_the_public_names_of_the_ledgers_are_these() -> None:
    assert ledgers.__all__ == ["Database", "Ledgers", "create", "rebuild_if_damaged"]
    assert all(hasattr(ledgers, name) for name in ledgers.__all__)


def test_the_ledgers_are_these_six_in_this_order() -> None:
    assert home.LEDGERS == ("events", "agents", "identity", "memory", "embeddings", "runtime")
