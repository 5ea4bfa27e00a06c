"""What proves that somebody speaks for the owner."""

from nexus.gateway.keys import LINK_S, SESSION_S, Keys

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
    session = keys.session(code)
    assert session is not None
    assert keys.is_session(session)
    assert keys.session(code) is None


def test_a_code_works_for_ten_minutes_only() -> None:
    time = Time()
    keys = Keys(TOKEN, time)
    code, late = keys.new_code(), keys.new_code()
    time.now += LINK_S - 1
    assert keys.session(code) is not None
    time.now += 2
    assert keys.session(late) is None


def test_a_code_that_was_never_given_opens_nothing() -> None:
    keys = Keys(TOKEN)
    keys.new_code()
    assert keys.session("") is None
    assert keys.session("guessed") is None


def test_a_session_ends_after_its_time() -> None:
    time = Time()
    keys = Keys(TOKEN, time)
    session = keys.session(keys.new_code())
    assert session is not None
    time.now += SESSION_S - 1
    assert keys.is_session(session)
    time.now += 2
    assert not keys.is_session(session)


def test_a_session_outlives_a_restart_and_ends_with_the_token() -> None:
    keys = Keys(TOKEN)
    session = keys.session(keys.new_code())
    assert session is not None
    assert Keys(TOKEN).is_session(session)
    assert not Keys("u" * 43).is_session(session)
    assert Keys(TOKEN).cookie != Keys("u" * 43).cookie


def test_a_session_that_was_changed_is_none() -> None:
    keys = Keys(TOKEN)
    session = keys.session(keys.new_code())
    assert session is not None
    expires, nonce, signature = session.split(".")
    assert not keys.is_session(f"{int(expires) + 1}.{nonce}.{signature}")
    assert not keys.is_session(f"{expires}.{nonce}.{signature[:-1]}é")
    assert not any(keys.is_session(forged) for forged in ("", ".", "..", signature, f"x.{signature}"))


def test_only_the_last_codes_are_kept() -> None:
    keys = Keys(TOKEN)
    first = keys.new_code()
    later = [keys.new_code() for _ in range(16)]
    assert keys.session(first) is None
    assert keys.session(later[0]) is not None
