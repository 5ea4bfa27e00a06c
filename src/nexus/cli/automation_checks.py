"""What `nexus doctor` says of automations: lessons that wait for the owner, and what runs in the sandbox."""

from collections.abc import Iterator
from contextlib import closing

from nexus import config
from nexus.automations.condition import Condition, Surroundings, condition, used_up
from nexus.automations.improvement import lessons
from nexus.automations.scripts.checked import IN_PROCESS, SANDBOX
from nexus.cli.findings import Finding
from nexus.cli.place import counted
from nexus.config import LedgersConfig
from nexus.errors import ConfigError, LedgerError
from nexus.home import Home
from nexus.ledgers.connection import connect
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation
from nexus.roles.bundled import switched_off


def examine(home: Home) -> Iterator[Finding]:
    """Every finding about a home's automations."""
    for name, count in lessons.waiting(home).items():
        yield Finding(
            check="automations",
            level="warning",
            message=f"{counted(count, 'lesson')} of {name} waiting for your approval",
            remedy=f"Review with `nexus automations lessons {name}`.",
        )
    for name, found in troubled(home, _registered(home)):
        yield Finding(
            check="automations",
            level=found.level if found.level == "error" else "warning",
            message=f"{name}: {found.text}",
            remedy=found.remedy,
        )
    scripts = [each for each in _registered(home) if not (each.script_path or "").startswith(IN_PROCESS)]
    if scripts:
        inside = sum(bool(each.config.get(SANDBOX)) for each in scripts)
        message = f"{counted(len(scripts), 'script')} registered, {inside} of them sandboxed"
        yield Finding(check="automations", level="ok", message=message)


def troubled(home: Home, registered: list[Automation]) -> list[tuple[str, Condition]]:
    """The automations that need attention, and why. Reads their scripts: call it on a thread."""
    try:
        settings = config.load(home.config_file)
    except ConfigError:
        return []  # told already
    try:
        connection = connect(home.ledger("runtime"), "runtime", LedgersConfig(), writes=False)
    except LedgerError:
        return []  # told already
    with closing(connection):
        spent = used_up(connection, settings.budgets)
    around = Surroundings(off=switched_off(settings), settings=settings.automations, used_up=spent)
    found = [(each.name, condition(home, each, around)) for each in registered]
    return [(name, told) for name, told in found if told.needs_attention]


def _registered(home: Home) -> list[Automation]:
    try:
        connection = connect(home.ledger("runtime"), "runtime", LedgersConfig(), writes=False)
    except LedgerError:
        return []  # told already
    with closing(connection):
        return automations.listed(connection)
