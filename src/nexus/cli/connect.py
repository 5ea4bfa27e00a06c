"""`nexus connect`: what can be connected to a home, what is, and how."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Final

import apsw
import click

from nexus.cli.mcp import locate_program
from nexus.cli.place import json_option, open_home, print_json, printable, with_ledgers
from nexus.config import Config
from nexus.errors import UsageError
from nexus.home import Home, locate
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import channels
from nexus.serving import serving

_WIDTH: Final = 22


@dataclass(frozen=True, kw_only=True)
class Item:
    """Something that is connected, or can be."""

    name: str
    state: str
    is_connected: bool = False


@dataclass(frozen=True, kw_only=True)
class Group:
    """Things that are connected in the same way."""

    title: str
    items: list[Item]
    lines: tuple[str, str]
    """What connects one, and what checks or disconnects it."""
    more: str = ""
    """What else can be connected, which isn't on this machine."""


@click.command()
@json_option
@click.pass_context
def connect(ctx: click.Context, as_json: bool) -> None:
    """Show what can be connected, what is, and the commands that do it.

    Agents that use the memory, programs and editors that talk to the agent, channels, and the tools and
    skills of the agent.
    """
    home, settings = open_home(ctx)
    states = with_ledgers(ctx, _load_states, names=list(settings.channels))
    groups = list(_list_groups(home, settings, states))
    if as_json:
        print_json([asdict(each) for each in groups])
        return
    for each in groups:
        click.secho(each.title, bold=True)
        for item in each.items:
            mark = "*" if item.is_connected else " "
            click.echo(printable(f" {mark} {item.name:<{_WIDTH}} {item.state}"))
        if each.more:
            click.echo(f"   {'also' if each.items else 'such as'}: {each.more}")
        for line in each.lines:
            click.echo(f"     {line}")
        click.echo()
    if any(item.is_connected for each in groups for item in each.items):
        click.echo("* connected")


def _list_groups(home: Home, settings: Config, states: dict[str, str]) -> Iterator[Group]:
    yield _find_clients(home)
    if settings.gateway.mcp_oauth:
        from nexus.gateway.mcp import Grants

        yield Group(
            title="Remote clients use this memory (MCP with OAuth)",
            items=[
                Item(name=each.name, state=f"returns to {each.returns_to}", is_connected=True)
                for each in Grants(home).load().values()
            ],
            lines=(f"{settings.gateway.public_url.rstrip('/')}/mcp", "nexus mcp revoke NAME"),
        )
    service = serving(home)
    address = service.url if service is not None and service.url else "http://127.0.0.1:7807"
    yield Group(
        title="Programs that speak OpenAI's API talk to the agent",
        items=[],
        lines=(f"export OPENAI_BASE_URL={address}/v1", "export OPENAI_API_KEY=$(nexus login --token)"),
    )
    chosen = [] if home.root == locate(None, {}).root else ["--home", str(home.root)]
    editor = {"type": "custom", "command": locate_program(), "args": [*chosen, "acp"]}
    has_package = find_spec("acp") is not None
    yield Group(
        title="Editors talk to the agent (ACP)",
        items=[],
        lines=(
            "nexus acp --help" if has_package else "pip install 'nexus-runtime[acp]'",
            json.dumps({"agent_servers": {"Nexus": editor}}),
        ),
        more="Zed, JetBrains IDEs and others that speak ACP",
    )
    yield _find_channels(settings, states)
    yield Group(
        title="The agent uses the tools of MCP servers",
        items=[
            Item(
                name=name,
                state=f"{each.url or each.command}{', with a sign-in' * bool(each.oauth)}",
                is_connected=True,
            )
            for name, each in settings.mcp.items()
        ],
        lines=("nexus mcp add URL", "nexus mcp login NAME"),
    )
    yield _find_skills(home)


def _find_clients(home: Home) -> Group:
    from nexus.cli import mcp_clients as clients

    installed = {each.name for each in clients.find_installed()}
    items = list[Item]()
    for each in clients.CLIENTS.values():
        try:
            used = clients.find_home(each, each.file())
        except UsageError as error:
            items.append(Item(name=each.name, state=error.message))
            continue
        is_ours = used == str(home.root)
        if used is not None or each.name in installed:
            state = "uses this memory" if is_ours else f"uses {used}" if used else "installed"
            items.append(Item(name=each.name, state=state, is_connected=is_ours))
    listed = {each.name for each in items}
    return Group(
        title="Other agents use this memory (MCP)",
        items=items,
        lines=("nexus mcp install NAME", "nexus mcp uninstall NAME"),
        more=", ".join(sorted(clients.CLIENTS.keys() - listed)),
    )


def _find_channels(settings: Config, states: dict[str, str]) -> Group:
    from nexus.channels.setup import KINDS

    items = [
        Item(name=name, state=f"{each.kind}, {states[name]}", is_connected=states[name] == "connected")
        for name, each in settings.channels.items()
    ]
    used = {each.kind for each in settings.channels.values()}
    return Group(
        title="Channels reach the agent",
        items=items,
        lines=("nexus channels add KIND", "nexus channels list"),
        more=", ".join(sorted(KINDS.keys() - used)),
    )


def _find_skills(home: Home) -> Group:
    from nexus.skills.catalog import Catalog

    return Group(
        title="The agent has skills",
        items=[
            Item(name=str(each.reference), state=each.state, is_connected=each.state == "enabled")
            for each in Catalog(home).list_entries()
        ],
        lines=("nexus skills add FOLDER_OR_URL", "nexus skills enable NAME"),
    )


async def _load_states(ledgers: Ledgers, *, names: list[str]) -> dict[str, str]:
    def read(connection: apsw.Connection) -> dict[str, str]:
        found = {name: channels.state(connection, name) for name in names}
        return {name: "paused" if each.paused else each.status for name, each in found.items()}

    return await ledgers.runtime.read(read)
