from nexus.backoff import next_pause_s


def test_a_pause_doubles_with_each_failure_up_to_the_longest() -> None:
    assert [next_pause_s(failures, 0.5, 3.0) for failures in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert next_pause_s(100_000, 0.5, 3.0) == 3.0


def test_a_spread_pause_is_between_a_half_and_the_whole() -> None:
    pauses = {next_pause_s(2, 1.0, is_spread=True) for _ in range(100)}
    assert len(pauses) > 1
    assert all(1.0 <= pause <= 2.0 for pause in pauses)
