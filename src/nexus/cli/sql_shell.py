"""The shell of `nexus sql` without `--write`."""

# apsw's shell is not typed.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

import os
import sys
from collections.abc import Sequence
from typing import Any, Final, cast

import apsw
import apsw.shell

from nexus.home import LEDGERS

# Everything else in the shell opens files or connections, or runs programs.
_COMMANDS: Final = frozenset(
    {"bail", "changes", "colour", "echo", "exit", "header", "headers", "help", "limit", "nullvalue", "quit"}
    | {"mode", "parameter", "print", "prompt", "separator", "show", "timer", "version", "width"}
    | {"databases", "ftsq", "indices", "schema", "tables"}
)
_TABLES: Final = (
    "SELECT name FROM {}.sqlite_schema WHERE type IN ('table', 'view') AND name LIKE ? "
    "AND name NOT LIKE 'sqlite_%' ORDER BY name"
)
_STATEMENTS: Final = (
    "SELECT sql FROM {}.sqlite_schema WHERE sql IS NOT NULL AND tbl_name LIKE ? ORDER BY rowid"
)


class ReadOnlyShell(apsw.shell.Shell):
    """apsw's shell, without the commands that reach beyond its connection."""

    def run(self, options: list[str], statements: list[str]) -> int:
        """Run statements, or read them from a terminal or a pipe; returns the exit code."""
        modes = [option for option in options if hasattr(self, f"output_{option.lstrip('-')}")]
        self.process_args([option for option in options if option not in modes])
        # Not by process_args: where NO_COLOR is set it drops them.
        for mode in modes:
            self.command_mode([mode.lstrip("-")])
        if "NO_COLOR" in os.environ:
            self.command_colour(["off"])
        # A statement that fails ends a script; at a terminal the next one can be typed.
        self.bail = self.bail or bool(statements) or not self.interactive
        try:
            for statement in statements:
                self.process_complete_line(statement)
            if not statements:
                self.cmdloop()
        except (apsw.Error, self.Error, KeyboardInterrupt) as error:
            self.report(error)
            return 1
        return 0

    def process_command(self, command: str) -> None:
        name = command[1:].split(maxsplit=1)[0] if command[1:].split() else ""
        if name not in _COMMANDS:
            raise self.Error(f".{name} is not available in the read-only shell. Pass --write for a full one.")
        super().process_command(command)

    def command_tables(self, cmd: list[str]) -> None:
        """tables ?PATTERN?: Lists tables and views whose names match, with their database"""
        for ledger in LEDGERS:
            for name in self._ask(_TABLES.format(ledger), cmd):
                self.write(self.stdout, f"{ledger}.{name}\n")

    def command_schema(self, cmd: list[str]) -> None:
        """schema ?PATTERN?: Shows the statements that made tables whose names match"""
        for ledger in LEDGERS:
            for statement in self._ask(_STATEMENTS.format(ledger), cmd):
                self.write(self.stdout, f"{statement};\n")

    def _ask(self, query: str, words: list[str]) -> list[str]:
        connection = cast("apsw.Connection", self.db)
        return [row[0] for row in connection.execute(query, (words[0] if words else "%",))]

    def output_column(self, header: Sequence[str], line: list[Sequence[Any]]) -> None:
        """Items left-aligned in columns as wide as they need, under their names"""
        texts = [list(header), *([self._fmt_text_col(value) for value in row] for row in line)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        texts.insert(1, ["-" * width for width in widths])
        for row in texts:
            cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
            self.write(self.stdout, "  ".join(cells).rstrip() + "\n")

    # The shell hands over all rows of a query instead of one at a time.
    output_column.all_at_once = True  # pyright: ignore[reportFunctionMemberAccess]

    def handle_exception(self) -> None:
        error = sys.exc_info()[1]
        super().handle_exception()
        self.report(error)

    def report(self, error: BaseException | None) -> None:
        """Print an error unless the shell has, and what to do about a refusal."""
        if not getattr(error, "_handle_exception_saw_this", False):
            self.write_error(f"{error or 'Interrupted'}\n")
        if isinstance(error, apsw.AuthError | apsw.ReadOnlyError):
            self.write_error("This shell is read-only. Pass --write to change something.\n")
