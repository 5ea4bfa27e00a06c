import threading

from nexus.ledgers.threads import Threads


def started(name: str) -> int:
    return sum(thread.name.startswith(f"{name}_") for thread in threading.enumerate())


def test_threads_start_only_when_none_is_idle() -> None:
    threads = Threads(4, "few")
    for _ in range(20):
        done = threading.Event()
        threads.submit(done.set)
        assert done.wait(10)
        # It is idle a moment after it has told its end.
        while not threads._idle:  # pyright: ignore[reportPrivateUsage]
            pass
    assert started("few") == 1
    threads.shutdown()
    assert started("few") == 0


def test_no_more_threads_start_than_allowed_and_nothing_is_left_undone() -> None:
    threads = Threads(3, "many")
    go, done = threading.Event(), list[int]()

    def work(number: int) -> None:
        go.wait(10)
        done.append(number)

    for number in range(50):
        threads.submit(lambda number=number: work(number))
    assert started("many") == 3
    go.set()
    threads.shutdown()
    assert sorted(done) == list(range(50))
    assert started("many") == 0


def test_work_that_waits_for_each_other_runs_side_by_side() -> None:
    threads, both = Threads(2, "pair"), threading.Barrier(2, timeout=10)
    met = threading.Semaphore(0)

    def meet() -> None:
        both.wait()
        met.release()

    for _ in range(10):
        threads.submit(meet)
        threads.submit(meet)
        assert met.acquire(timeout=10)
        assert met.acquire(timeout=10)
    threads.shutdown()
