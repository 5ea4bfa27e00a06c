"""Which browsers are logged in."""

import stat
from pathlib import Path

import pytest

from nexus.gateway.guard import IDLE_S, SESSION_S, Browsers
from unit.gateway.test_keys import Time

KEY = b"k" * 32


def test_a_browser_is_known_by_its_secret_alone() -> None:
    browsers = Browsers(KEY, None)
    secret = browsers.add()
    assert browsers.knows(secret)
    assert not any(browsers.knows(wrong) for wrong in ("", "x", secret[:-1], f"{secret}x", "\udcff", "é"))


def test_one_that_is_used_stays_for_a_week_and_one_that_is_not_for_a_day() -> None:
    time = Time()
    browsers = Browsers(KEY, None, time)
    used, unused = browsers.add(), browsers.add()
    begun = time.now
    while time.now + IDLE_S / 2 < begun + SESSION_S:
        time.now += IDLE_S / 2
        assert browsers.knows(used)
    assert not browsers.knows(unused)
    time.now = begun + SESSION_S + 1
    assert not browsers.knows(used)
    assert len(browsers) == 0


def test_one_that_was_logged_out_stays_out_and_the_others_in() -> None:
    browsers = Browsers(KEY, None)
    one, other = browsers.add(), browsers.add()
    browsers.end(one)
    browsers.end("unknown")
    assert (browsers.knows(one), browsers.knows(other), len(browsers)) == (False, True, 1)
    browsers.end_all()
    assert not browsers.knows(other)


def test_they_outlive_a_restart_and_end_with_the_token(tmp_path: Path) -> None:
    file = tmp_path / "browsers.json"
    browsers = Browsers(KEY, file)
    secret, out = browsers.add(), browsers.add()
    browsers.end(out)
    again = Browsers(KEY, file)
    assert (again.knows(secret), again.knows(out)) == (True, False)
    assert not Browsers(b"u" * 32, file).knows(secret)


def test_the_file_holds_no_secret_and_is_for_the_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "browsers.json"
    secret = Browsers(KEY, file).add()
    assert secret not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("written", ["", "{", "[1]", '{"a": "b"}', "null"])
def test_a_file_that_cannot_be_read_only_means_to_log_in_again(tmp_path: Path, written: str) -> None:
    file = tmp_path / "browsers.json"
    file.write_text(written)
    browsers = Browsers(KEY, file)
    assert len(browsers) == 0
    assert browsers.knows(browsers.add())


def test_only_the_last_ones_are_kept() -> None:
    browsers = Browsers(KEY, None)
    first = browsers.add()
    later = [browsers.add() for _ in range(64)]
    assert not browsers.knows(first)
    assert browsers.knows(later[0])
