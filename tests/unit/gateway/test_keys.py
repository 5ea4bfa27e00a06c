"""What proves that somebody speaks for the owner."""

from nexus.gateway.guard import LINK_S, Keys

TOKEN = "t" * 43


class Time:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_only_the_token_of_the_home_is_its_token() -> None:
    keys = Keys(TOKEN)
    assert keys.is_token(TOKEN)
    assert not any(keys.is_token(wrong) for wrong in ("", "u" * 43, TOKEN[:-1], TOKEN + "t", "\udcff"))


def test_a_code_works_once() -> None:
    keys = Keys(TOKEN)
    code = keys.new_code()
    assert keys.is_code(code)
    assert not keys.is_code(code)


def test_a_code_works_for_ten_minutes_only() -> None:
    time = Time()
    keys = Keys(TOKEN, time)
    code, late = keys.new_code(), keys.new_code()
    time.now += LINK_S - 1
    assert keys.is_code(code)
    time.now += 2
    assert not keys.is_code(late)


def test_a_code_that_was_never_given_opens_nothing() -> None:
    keys = Keys(TOKEN)
    keys.new_code()
    assert not keys.is_code("")
    assert not keys.is_code("guessed")


def test_each_home_and_each_place_has_a_cookie_of_its_own() -> None:
    names = {Keys(TOKEN, port=1).cookie, Keys(TOKEN, port=2).cookie, Keys("u" * 43, port=1).cookie}
    assert len(names) == 3
    assert not any(TOKEN in name for name in names)


def test_only_the_last_codes_are_kept() -> None:
    keys = Keys(TOKEN)
    first = keys.new_code()
    later = [keys.new_code() for _ in range(16)]
    assert not keys.is_code(first)
    assert keys.is_code(later[0])
