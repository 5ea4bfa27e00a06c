"""Following the log of a home."""

import asyncio

import pytest

from nexus import logs as written
from nexus.cli import logs
from nexus.home import Home


async def test_lines_are_shown_as_they_are_written(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    tail, shown = written.Tail(home), ""
    following = asyncio.create_task(logs.print_new_lines(home, tail, "warning", as_json=True))
    try:
        async with asyncio.timeout(30):
            for number in range(3):
                await asyncio.sleep(0)
                with written.path(home).open("a", encoding="utf-8") as log:
                    log.write('{"level": "info", "message": "small"}\n')
                    log.write(f'{{"level": "error", "message": "number {number}"}}\n')
                while f"number {number}" not in shown:
                    await asyncio.sleep(0.01)
                    shown += capsys.readouterr().out
    finally:
        following.cancel()
        tail.close()
    assert shown.count("number") == 3
    assert "small" not in shown
