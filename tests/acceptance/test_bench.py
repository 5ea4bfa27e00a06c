"""The benchmarks: chats run in their short form, the others with NEXUS_LONG=1; options are read of all."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from long_form import times

_BENCH = Path(__file__).parents[2] / "bench"
_CHATS = (["chats.py", "--quick"], "| errors and answers cut short, of 40 | 0 | 0 | yes |")
# What these promise is shown by tests of the program itself: `test_kill`, `test_channels`, `test_host` and
# `unit/hosting`.
_OTHERS = [
    (["drain.py", "--messages", "20", "--sessions", "4"], "| lost | 0 | 0 | yes |"),
    (["webhooks.py", "--quick"], "| not answered | 0 | 0 | yes |"),
    (["soak.py", "--quick"], "| errors | 0 | 0 | yes |"),
    (["hosting.py", "--quick"], "| reads of another home's word | 0 | 0 | yes |"),
    (["ledgers.py", "--quick"], "| measured | figure |"),
    (["engine.py", "--quick", "--database", "sqlite"], "| enqueue to start | p50"),
    (["hooks.py", "--quick"], "an empty hook point: p50"),
    (["turns.py", "--quick"], "| what the broker adds, p50 |"),
    (["memory_writes.py", "--quick"], "facts in batches of"),
    (["dashboard.py", "--quick"], "| the busiest entity | p50"),
    (["usage.py", "--quick"], "| the sum of a month | p50"),
    (["scale.py", "--quick"], "| 10^8 | 20,000 |"),
    (["fleet_simulation.py", "--quick"], "| 10^3 | 1; 1 |"),
]


@pytest.mark.parametrize(("words", "printed"), [_CHATS, *_OTHERS * times(0, long=1)])
def test_a_benchmark_runs_in_its_short_form(words: list[str], printed: str, tmp_path: Path) -> None:
    command = [sys.executable, str(_BENCH / words[0]), *words[1:]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert printed in done.stdout


@pytest.mark.parametrize("words", [words for words, _ in _OTHERS], ids=lambda words: words[0])
def test_a_benchmark_finds_all_that_it_uses(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Types are checked elsewhere; this imports what it measures, and reads its options."""
    monkeypatch.setattr(sys, "argv", [words[0], "--help"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(words[0].removesuffix(".py")).main()
    assert not ended.value.code
    assert words[1] in capsys.readouterr().out
