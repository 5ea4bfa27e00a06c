"""The settings of a home under a host: nothing of one home runs beside another unconfined.

Its scripts run in the sandbox, whoever registered them. What can't be put there is left out, and said.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from nexus.config import CHANNEL_KINDS, Config
from nexus.home import Home
from nexus.hosting.limits import Limits

# With many homes, pages are cached for few of them at a time.
_CACHE_KIB: Final = 1024
_READERS: Final = 1


class Confined(NamedTuple):
    """Settings that a host takes, and what it left out of them."""

    config: Config
    left_out: list[str]


def files_folder(home: Home) -> Path:
    """The one directory in which a hosted home's agents may be granted others."""
    return home.root / "files"


def confine(config: Config, home: Home, limits: Limits, public_url: str) -> Confined:
    """A home's settings as its host takes them."""
    shut_in = drop_rights(config, home)
    kept = replace(
        shut_in.config,
        budgets=limits.budgets(config.budgets),
        gateway=replace(config.gateway, public_url=public_url, rate_per_s=limits.rate_per_s, otlp_url=""),
        ledgers=replace(
            config.ledgers,
            cache_kib=min(config.ledgers.cache_kib, _CACHE_KIB),
            readers=min(config.ledgers.readers, _READERS),
        ),
    )
    return Confined(kept, shut_in.left_out)


def drop_rights(config: Config, home: Home) -> Confined:
    """A hosted home's settings such that none of its code has the host's rights, also in a command."""
    left_out: list[str] = []
    mcp = {name: replace(each, sandbox=True) for name, each in config.mcp.items()}
    own = {*CHANNEL_KINDS} - {"program"}
    channels = {name: each for name, each in config.channels.items() if each.kind in own}
    left_out += [
        f"Channel `{name}`: a host starts no programs of homes, nor code of packages. Use a webhook."
        for name in config.channels.keys() - channels.keys()
    ]
    directories = tuple(each for each in config.tools.directories if _is_within(each, files_folder(home)))
    left_out += [
        f"Directory `{each}`: a host grants only what is below {files_folder(home)}."
        for each in config.tools.directories
        if each not in directories
    ]
    python_tools = {name: each for name, each in config.python_tools.items() if each.run == "off"}
    left_out += [
        f"`[python_tools.{name}]`: a host runs tools of packages in the sandbox and grants them no more."
        for name in config.python_tools.keys() - python_tools.keys()
    ]
    left_out += [
        f"`[calendar.{name}]`: a host reads no files of its own for homes, and no servers of its network."
        for name in config.calendar
    ]
    if config.tools.network:
        left_out.append("`[tools] network`: the network of a host reaches its other homes.")
    kept = replace(
        config,
        mcp=mcp,
        channels=channels,
        python_tools=python_tools,
        calendar={},
        tools=replace(config.tools, directories=directories, network=False),
        automations=replace(config.automations, sandbox_all=True),
    )
    return Confined(kept, left_out)


def _is_within(granted: str, folder: Path) -> bool:
    path = Path(granted.removesuffix(":rw")).expanduser()
    return path.is_absolute() and path.resolve().is_relative_to(folder.resolve())
