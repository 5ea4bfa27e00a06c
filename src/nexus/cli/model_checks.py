"""What `nexus doctor` checks of models and automations."""

from collections.abc import Iterator
from contextlib import closing

from nexus import config, secrets
from nexus.automations import improvement
from nexus.automations.condition import Condition, Surroundings, assess, find_used_up
from nexus.automations.scripts.script import IN_PROCESS, SANDBOX
from nexus.broker.agent.roles import unknown_model
from nexus.cli.ledger_checks import Finding
from nexus.config import Config, LedgersConfig
from nexus.errors import ConfigError, LedgerError, ModelFileError
from nexus.home import Home
from nexus.ledgers.connection import connect
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation
from nexus.roles.bundled import switched_off
from nexus.text import pluralize


def find_problems(config: Config) -> Iterator[ConfigError]:
    """Find what keeps a model that the settings name from being used."""
    for name in sorted(config.models.roles):
        provider, slash, model = name.partition("/")
        known = config.providers.get(provider)
        if not slash or not model or known is None:
            yield unknown_model(name, config.providers)
            continue
        if known.kind == "builtin":
            yield from _check_builtin(name, model)
        for source in filter(None, (known.api_key, known.auth_token)):
            try:
                secrets.read(source)
            except ConfigError as error:
                yield ConfigError(f"{name}: {error.message}", hint=error.hint)

    for name in config.prices:
        if name.partition("/")[0] not in config.providers:
            yield ConfigError(
                f"[prices.{name}] is not a model name",
                hint='Write `[prices."provider/model"]`, with the quotes.',
            )


def _check_builtin(name: str, model: str) -> Iterator[ConfigError]:
    # Imported here, because it takes longer than a command that names no such model may.
    from nexus.broker.agent.builtin import weights

    try:
        weights(model)
    except (ConfigError, ModelFileError) as error:
        yield ConfigError(f"{name}: {error.message}", hint=error.hint)


def find_unlimited(config: Config) -> Iterator[ConfigError]:
    """Find models that no budget in money limits, because their price is unknown."""
    # Imported here, because the list of prices is long.
    from nexus.broker.agent import prices

    budgets = ", ".join(f"`{name}`" for name in prices.budgets_in_money(config.budgets))
    for name in prices.list_unpriced(config):
        yield ConfigError(
            f"{budgets} in [budgets] can't limit {name}: its price is unknown",
            hint=f'Write `[prices."{name}"]` with `fresh_usd`, `cached_usd` and `output_usd`, in US dollars '
            "for a million tokens, into config.toml (0: it is free), or set a budget in tokens.",
        )


def describe_unlimited(config: Config) -> list[str]:
    """Describe what `find_unlimited` finds, each with what to do."""
    return [f"{problem.message}. {problem.hint}" for problem in find_unlimited(config)]


def check_automations(home: Home) -> Iterator[Finding]:
    """Yield every finding about a home's automations."""
    for name, count in improvement.count_waiting(home).items():
        yield Finding(
            check="automations",
            level="warning",
            message=f"{pluralize(count, 'lesson')} of {name} waiting for your approval",
            remedy=f"Review with `nexus automations lessons {name}`.",
        )
    registered = _load_automations(home)
    for name, found in find_troubled(home, registered):
        yield Finding(
            check="automations",
            level=found.level if found.level == "error" else "warning",
            message=f"{name}: {found.text}",
            remedy=found.remedy,
        )
    scripts = [each for each in registered if not (each.script_path or "").startswith(IN_PROCESS)]
    if scripts:
        inside = sum(bool(each.config.get(SANDBOX)) for each in scripts)
        message = f"{pluralize(len(scripts), 'script')} registered, {inside} of them sandboxed"
        yield Finding(check="automations", level="ok", message=message)


def find_troubled(home: Home, registered: list[Automation]) -> list[tuple[str, Condition]]:
    """Find automations that need attention, and why. Reads their scripts: call it on a thread."""
    try:
        settings = config.load(home.config_file)
    except ConfigError:
        return []  # another check reports it
    try:
        connection = connect(home.ledger("runtime"), "runtime", LedgersConfig(), writes=False)
    except LedgerError:
        return []  # another check reports it
    with closing(connection):
        spent = find_used_up(connection, settings.budgets)
    around = Surroundings(off=switched_off(settings), settings=settings.automations, used_up=spent)
    found = [(each.name, assess(home, each, around)) for each in registered]
    return [(name, state) for name, state in found if state.needs_attention]


def _load_automations(home: Home) -> list[Automation]:
    try:
        connection = connect(home.ledger("runtime"), "runtime", LedgersConfig(), writes=False)
    except LedgerError:
        return []  # another check reports it
    with closing(connection):
        return automations.list_current(connection)
