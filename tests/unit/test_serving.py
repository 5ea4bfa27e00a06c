"""Who serves a home."""

import os

import pytest

from nexus.errors import HomeBusyError
from nexus.home import Home
from nexus.serving import Serving, serving


def test_others_see_who_serves_a_home_while_it_does(home: Home) -> None:
    assert serving(home) is None
    with Serving(home) as held:
        held.tell("http://127.0.0.1:7807")
        found = serving(home)
        assert found is not None
        assert found.url == "http://127.0.0.1:7807"
        assert found.pid == os.getpid()
    assert serving(home) is None


def test_a_second_one_is_refused_and_told_by_whom(home: Home) -> None:
    with Serving(home) as held:
        held.tell("http://127.0.0.1:7807")
        with pytest.raises(HomeBusyError) as caught, Serving(home):
            pass
    assert "http://127.0.0.1:7807" in caught.value.message
    assert "process" in caught.value.message
    with Serving(home):
        pass


def test_what_a_killed_process_left_says_nothing(home: Home) -> None:
    (home.run / "serving").write_text('{"pid": 1, "url": "http://127.0.0.1:1", "since": "x"}')
    assert serving(home) is None
