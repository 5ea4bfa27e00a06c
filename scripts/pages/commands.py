"""The commands page, from the click commands of nexus.cli."""

import inspect
import json
from collections.abc import Iterator

import click

from nexus.cli import SECTIONS, program
from pages import markdown

_ABOUT = """\
Also available as `nexus COMMAND --help`. Global options such as `--home` go before the command."""

_EXIT_CODES = """\
0: success. 1: failure, with a message. 2: unknown or missing option or argument. `nexus doctor` exits with 1
if errors remain. `nexus sql` exits like `sqlite3`."""


def page() -> str:
    parts = markdown.front("Commands", "src/nexus/cli", _ABOUT)
    top = click.Context(program, info_name="nexus", **program.context_settings)
    parts += _body(program, top)
    for heading, commands in SECTIONS.items():
        overview = [[f"[`{name}`](#nexus-{name})", line] for name, (_, line) in commands.items()]
        parts.append(markdown.table([heading, ""], overview))
    parts += _below(program, top, "##")
    parts += ["## Exit codes", _EXIT_CODES]
    return markdown.join(parts)


def summaries() -> str:
    """Every command with its one sentence, for the dashboard's search."""
    top = click.Context(program, info_name="nexus", **program.context_settings)
    listed = [{"name": name, "about": about} for name, about in _summaries(program, top)]
    return json.dumps(listed, indent=1, ensure_ascii=False) + "\n"


def _summaries(group: click.Group, context: click.Context) -> Iterator[tuple[str, str]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        below = click.Context(command, info_name=name, parent=context)
        yield below.command_path, command.get_short_help_str(limit=200)
        if isinstance(command, click.Group):
            yield from _summaries(command, below)


def _below(group: click.Group, context: click.Context, heading: str) -> list[str]:
    parts: list[str] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            raise SystemExit(f"`{context.command_path} {name}` is listed and cannot be loaded")
        below = click.Context(command, info_name=name, parent=context)
        anchor = below.command_path.replace(" ", "-")
        parts += [f"{heading} `{below.command_path}` {{ #{anchor} }}", *_body(command, below)]
        if isinstance(command, click.Group):
            parts += _below(command, below, f"{heading}#")
    return parts


def _body(command: click.Command, context: click.Context) -> list[str]:
    if not command.help:
        raise SystemExit(f"`{context.command_path}` has no help text")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    options = [_option(p, context) for p in command.get_params(context) if isinstance(p, click.Option)]
    return [
        *_paragraphs(command.help),
        markdown.fence(usage, "text"),
        # Every command has --help; the page says so once.
        markdown.table(["Option", "Meaning"], rows) if (rows := [row for row in options if row]) else "",
        *_paragraphs(command.epilog or ""),
    ]


def _option(option: click.Option, context: click.Context) -> list[str]:
    record = option.get_help_record(context)
    wanted = record and (context.parent is None or "--help" not in option.opts)
    return [markdown.code(record[0]), record[1]] if record and wanted else []


def _paragraphs(text: str) -> list[str]:
    """Click's help as Markdown: a paragraph marked with \\b keeps its lines."""
    found: list[str] = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        kept = paragraph.startswith("\b")
        found.append(markdown.fence(paragraph.lstrip("\b\n"), "text") if kept else paragraph)
    return found
