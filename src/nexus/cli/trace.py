"""`nexus trace`: the steps of a request, with their time and cost."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from nexus import clock, config
from nexus.cli.place import json_option, open_home, print_unicode_json, printable
from nexus.home import Home
from nexus.ledgers import Ledgers, events
from nexus.ledgers.events import ChangedAnswer
from nexus.ledgers.runtime import requests
from nexus.ledgers.runtime import trace as traces
from nexus.ledgers.runtime.trace import Node
from nexus.runs import Totals, money
from nexus.text import join_lines, pluralize, shorten

_STYLES = {
    **dict.fromkeys(("ok", "done", "used"), "green"),
    **dict.fromkeys(("error", "failed", "timeout", "denied", "withheld"), "bold red"),
    **dict.fromkeys(("running", "queued", "changed"), "yellow"),
    **dict.fromkeys(("cancelled", "taken", "skipped", "not used"), "dim"),
}
_ASKED_CHARACTERS = 72
_TASK_CHARACTERS = 40
_ERROR_CHARACTERS = 300
_WAIT_WORTH_TELLING_MS = 1_000
_NARROW = 100
_NARROWEST = 16
_GAP = "  "
# In a pipe nothing is cut off.
_WIDE = 10_000


def offset_ms(node: Node, since: str) -> float | None:
    """Return how long after a moment a step began."""
    if not (node.started_at and since):
        return None
    return (clock.parse(node.started_at) - clock.parse(since)).total_seconds() * 1000


def print_trace(node: Node, asked: str, changes: Sequence[ChangedAnswer] = (), *, ids: bool) -> None:
    """Print one request, with everything it led to."""
    console = _make_console()
    console.print(Text.assemble((node.id, "bold"), "  ", clock.second(node.started_at)))
    if asked:
        console.print(Text(f"“{_shorten(asked)}”", style="italic"))
    headings = ("", "", "start", "took", "fresh", "cached", "written", "out", "cost")
    steps = [("", node, None), *_walk_below(node)]
    rows = [_step_row(branch, step, above, node.started_at, ids=ids) for branch, step, above in steps]
    _print_table(console, headings, rows, left=(0, 1), flexible=0, droppable=(2,))
    for error, where in _collect_errors(node).items():
        console.print(Text.assemble(("✗ ", "bold red"), f"{where}: ", (error, "red")), soft_wrap=True)
    for change in changes:
        console.print(
            Text.assemble((_describe_change(change), "yellow"), f" Original: {printable(change.original)}")
        )
    console.print(_sum_line(node))


def _describe_change(change: ChangedAnswer) -> str:
    if change.withheld:
        return f"Answer withheld by {change.changed_by}: {printable(change.withheld)}."
    return f"Answer changed by {change.changed_by}."


def print_latest(found: list[tuple[Node, str]]) -> None:
    """Print a list of requests, newest first."""
    console = _make_console()
    if not found:
        console.print("No requests yet.")
        return
    headings = ("", "", "", "took", "in", "out", "cost", "request")
    rows = [_request_row(*one) for one in found]
    _print_table(console, headings, rows, left=(0, 1, 2, 7), flexible=1, droppable=(2, 4, 5))
    console.print(Text("Run `nexus trace ID` for the details of one.", style="dim"))


def _walk_below(node: Node, before: str = "") -> Iterator[tuple[str, Node, Node]]:
    """Yield every step below a node, with its branch as drawn and its parent."""
    for child in node.children:
        is_last = child is node.children[-1]
        yield before + ("└─ " if is_last else "├─ "), child, node
        yield from _walk_below(child, before + ("   " if is_last else "│  "))


def _step_row(branch: str, node: Node, above: Node | None, since: str, *, ids: bool) -> list[Text]:
    total, whole = node.total, bool(node.children)
    label = Text.assemble((branch, "dim"), *_label(node, above))
    if ids:
        label.append(f"  {node.id}", style="dim")
    start = offset_ms(node, since)
    tokens = (total.input_tokens, total.cache_read_tokens, total.cache_write_tokens, total.output_tokens)
    style = "dim" if whole else ""
    return [
        label,
        Text(node.status, style=_STYLES.get(node.status, "")),
        Text("" if start is None else f"{start / 1000:+.2f} s", style="dim"),
        Text(_format_duration(node)),
        *(Text(f"{count:,}" if total.tokens else "", style=style) for count in tokens),
        Text(total.cost + (" ∑" if whole and total.cost else "  "), style=style),
    ]


def _request_row(node: Node, asked: str) -> list[Text]:
    total = node.total
    # What a schedule began was asked by no message: its session has the automation's name.
    asked = asked or str(node.detail.get("session") or "").partition("schedule:")[2]
    return [
        Text(clock.second(node.started_at)),
        Text(_shorten(asked), style="bold"),
        Text(node.status, style=_STYLES.get(node.status, "")),
        Text(_format_duration(node)),
        Text(f"{total.tokens - total.output_tokens:,}"),
        Text(f"{total.output_tokens:,}"),
        Text(total.cost),
        Text(node.id, style="dim"),
    ]


def _label(node: Node, above: Node | None) -> list[str | tuple[str, str]]:
    detail = node.detail
    if node.kind == "request":
        task, session = detail.get("task"), detail.get("session")
        about = f" “{_shorten(task, _TASK_CHARACTERS)}”" if task else f" in {session}" if session else ""
        return [("request ", "bold"), node.name, about]
    if node.kind == "execution":
        known = above is not None and above.detail.get("session") == node.name
        waited_ms = detail.get("waited_ms") or 0
        waited = f", waited {clock.took(waited_ms)}" if waited_ms >= _WAIT_WORTH_TELLING_MS else ""
        return [("run", "bold"), "" if known else f" in {node.name}", waited]
    if node.kind == "automation":
        return [("automation ", "bold"), f"{node.name} at {detail['hook_point']}", _describe_decision(node)]
    if node.kind == "memory":
        return [("memory ", "magenta"), f"{node.name} {node.id}: {detail['why']}"]
    return [(f"{detail['kind']} ", "cyan"), node.name, ", estimated" if detail.get("estimated") else ""]


def _describe_decision(node: Node) -> str:
    """Say how many of the offered memories an automation chose; empty if it chooses none."""
    decided_by = node.detail.get("decided_by")
    if decided_by is None:
        return ""
    chosen, left = node.detail.get("injected", 0), node.detail.get("left_out", 0)
    return f", the {decided_by} chose {chosen} of {chosen + left} memories"


def _collect_errors(node: Node) -> dict[str, str]:
    """Collect each error once, with the innermost step that has it."""
    found: dict[str, str] = {}
    for one in node.walk():
        if one.error:
            kind = one.detail.get("kind", one.kind)
            found[_shorten(one.error, _ERROR_CHARACTERS)] = f"{kind} {one.name}"
    return found


def _sum_line(node: Node) -> Text:
    total = node.total
    prompt = total.tokens - total.output_tokens
    cached = f" ({total.cache_read_tokens / prompt:.0%} from cache)" if prompt else ""
    return Text.assemble(
        ("∑ ", "bold"),
        f"{pluralize(total.calls, 'model call')}: {prompt:,} tokens in{cached}, ",
        f"{total.output_tokens:,} out, ",
        *_describe_cost(total),
    )


def _describe_cost(total: Totals) -> list[str | tuple[str, str]]:
    unpriced = pluralize(total.unpriced_calls, "call")
    if total.calls and total.unpriced_calls == total.calls:
        return [f"{unpriced} without a known price"]
    whole = (money(total.cost_microusd), "bold")
    return [whole, f", and {unpriced} without a known price" if total.unpriced_calls else ""]


def _format_duration(node: Node) -> str:
    if node.kind == "memory":
        return ""
    return "…" if node.duration_ms is None else clock.took(node.duration_ms)


def _shorten(text: str, length: int = _ASKED_CHARACTERS) -> str:
    return shorten(join_lines(printable(text)), length)


def _print_table(
    console: Console,
    headings: Sequence[str],
    rows: Sequence[Sequence[Text]],
    *,
    left: tuple[int, ...],
    flexible: int,
    droppable: tuple[int, ...],
) -> None:
    """Print a table that fits: a narrow terminal gets fewer columns, and one that is cut."""
    all_rows = [[Text(heading, style="dim") for heading in headings], *rows]
    widths = [max(row[place].cell_len for row in all_rows) for place in range(len(headings))]
    shown = [place for place in range(len(headings)) if place not in droppable or console.width >= _NARROW]
    rest = sum(widths[place] + len(_GAP) for place in shown if place != flexible)
    widths[flexible] = max(min(widths[flexible], console.width - rest), _NARROWEST)
    for row in all_rows:
        for place in shown:
            row[place].truncate(widths[place], overflow="ellipsis")
            row[place].align("left" if place in left else "right", widths[place])
        line = Text(_GAP).join(row[place] for place in shown)
        line.rstrip()
        console.print(line, soft_wrap=True)


def _make_console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)


@click.command()
@click.argument("id", required=False)
@click.option("--ids", is_flag=True, help="Show all ids.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Number of requests to list, without ID.",
)
@json_option
@click.pass_context
def trace(ctx: click.Context, id: str | None, ids: bool, limit: int, as_json: bool) -> None:  # noqa: A002
    """Show the trace of a request, or list the latest requests.

    ID is a request, event, execution, dispatch or span id, or its beginning. Tokens are split into fresh,
    read from cache, written to cache, and output. ∑ marks totals.
    """
    home, settings = open_home(ctx)
    if id is None:
        latest = asyncio.run(_load_latest(home, settings, limit))
        if as_json:
            print_unicode_json(
                [{"asked": asked, **_node_document(node, node.started_at)} for node, asked in latest]
            )
        else:
            print_latest(latest)
        return
    node, asked, changes = asyncio.run(_load_trace(home, settings, id))
    if as_json:
        document = {"asked": asked, **_node_document(node, node.started_at)}
        print_unicode_json({**document, "changes": [asdict(each) for each in changes]})
    else:
        print_trace(node, asked, changes, ids=ids)


async def _load_trace(
    home: Home, settings: config.Config, text: str
) -> tuple[Node, str, list[ChangedAnswer]]:
    async with Ledgers(home, settings.ledgers) as ledgers:
        request_id = await ledgers.runtime.read(traces.find, text=text)
        node = await ledgers.runtime.read(traces.load, request_id=request_id)
        changes = await ledgers.events.read(events.changed_answers, request_ids=[request_id])
        return node, await _load_message(ledgers, node.id), changes


async def _load_latest(home: Home, settings: config.Config, limit: int) -> list[tuple[Node, str]]:
    async with Ledgers(home, settings.ledgers) as ledgers:
        roots = await ledgers.runtime.read(requests.recent_roots, limit=limit)
        found: list[tuple[Node, str]] = []
        for root in roots:
            node = await ledgers.runtime.read(traces.load, request_id=root.id)
            found.append((node, await _load_message(ledgers, root.id)))
        return found


async def _load_message(ledgers: Ledgers, request_id: str) -> str:
    request = await requests.restore(ledgers, request_id)
    return "" if request is None else request.event.content


def _node_document(node: Node, since: str) -> dict[str, Any]:
    return {
        "kind": node.detail.get("kind", node.kind),
        "id": node.id,
        "name": node.name,
        "status": node.status,
        "started_at": node.started_at or None,
        "offset_ms": offset_ms(node, since),
        "duration_ms": node.duration_ms,
        "error": node.error,
        "detail": {name: value for name, value in node.detail.items() if name != "kind"},
        "usage": asdict(node.usage),
        "total": asdict(node.total),
        "children": [_node_document(child, since) for child in node.children],
    }
