"""`nexus trace`: what was done for a request, how long it took and what it cost."""

import asyncio
import json
from dataclasses import asdict
from functools import partial
from typing import Any

import click

from nexus import config
from nexus.cli import trace_table
from nexus.cli.place import opened_home
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import requests
from nexus.ledgers.runtime import trace as traces
from nexus.ledgers.runtime.trace import Node


@click.command()
@click.argument("id", required=False)
@click.option("--ids", is_flag=True, help="Show the ids of everything.")
@click.option(
    "--limit", type=click.IntRange(1), default=10, show_default=True, help="How many to list, without ID."
)
@click.option("--json", "as_json", is_flag=True, help="Print it for a program to read.")
@click.pass_context
def trace(ctx: click.Context, id: str | None, ids: bool, limit: int, as_json: bool) -> None:  # noqa: A002
    """Show all that was done for the request ID, or list the latest requests.

    ID is that of a request, event, execution, dispatch or span, or the beginning of one. Tokens are told
    apart: fresh ones, those read from a cache and those written to one, and those that came out. ∑ adds up
    everything below.
    """
    home, settings = opened_home(ctx)
    if id is None:
        latest = asyncio.run(_latest(home, settings, limit))
        if as_json:
            _print_json([{"asked": asked, **_told(node, node.started_at)} for node, asked in latest])
        else:
            trace_table.print_latest(latest)
        return
    node, asked = asyncio.run(_traced(home, settings, id))
    if as_json:
        _print_json({"asked": asked, **_told(node, node.started_at)})
    else:
        trace_table.print_trace(node, asked, ids=ids)


async def _traced(home: Home, settings: config.Config, text: str) -> tuple[Node, str]:
    async with Ledgers(home, settings.ledgers) as ledgers:
        request_id = await ledgers.runtime.read(partial(traces.find, text=text))
        node = await ledgers.runtime.read(partial(traces.load, request_id=request_id))
        return node, await _asked(ledgers, node.id)


async def _latest(home: Home, settings: config.Config, limit: int) -> list[tuple[Node, str]]:
    async with Ledgers(home, settings.ledgers) as ledgers:
        roots = await ledgers.runtime.read(partial(requests.recent_roots, limit=limit))
        found: list[tuple[Node, str]] = []
        for root in roots:
            node = await ledgers.runtime.read(partial(traces.load, request_id=root.id))
            found.append((node, await _asked(ledgers, root.id)))
        return found


async def _asked(ledgers: Ledgers, request_id: str) -> str:
    request = await requests.restore(ledgers, request_id)
    return "" if request is None else request.event.content


def _told(node: Node, since: str) -> dict[str, Any]:
    return {
        "kind": node.detail.get("kind", node.kind),
        "id": node.id,
        "name": node.name,
        "status": node.status,
        "started_at": node.started_at or None,
        "offset_ms": trace_table.offset_ms(node, since),
        "duration_ms": node.duration_ms,
        "error": node.error,
        "detail": {name: value for name, value in node.detail.items() if name != "kind"},
        "usage": asdict(node.usage),
        "total": asdict(node.total),
        "children": [_told(child, since) for child in node.children],
    }


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))
