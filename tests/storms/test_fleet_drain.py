"""No request fails while hosts of a fleet are drained, stopped and started."""

import threading
from pathlib import Path

from acceptance.fleet import RunningFleet
from acceptance.steady import Steady, until_answered


def test_no_request_fails_while_a_host_is_drained_stopped_and_started_again(
    fleet: RunningFleet, settings: Path
) -> None:
    hosts = {name: fleet.start(name) for name in ("host-1", "host-2", "host-3")}
    tokens = {name: fleet.add(name, settings) for name in ("ada", "bob")}
    # Through the hosts that stay: a load balancer in front leaves out one that doesn't listen.
    through = [hosts["host-1"], hosts["host-2"]]
    stop = threading.Event()
    steady = [
        Steady(fleet.client(host, name, token), stop)
        for (name, token), host in zip(tokens.items(), through, strict=True)
    ]
    for name in tokens:
        moved = fleet.command("move", name, "--to", "host-3")
        assert moved.returncode == 0, moved.stderr
    for each in steady:
        each.start()
    try:
        until_answered(steady, 4)
        assert {fleet.host_of(name) for name in tokens} == {"host-3"}
        drained = fleet.command("drain", "host-3")
        assert (drained.returncode, "2 homes moved off host-3" in drained.stderr) == (0, True), drained.stderr
        assert "host-3" not in {fleet.host_of(name) for name in tokens}
        until_answered(steady, 4)
        hosts["host-3"].stop()
        until_answered(steady, 4)
        fleet.start("host-3")
        assert fleet.command("drain", "host-3", "--undo").returncode == 0
        back = fleet.command("move", "ada", "--to", "host-3")
        assert back.returncode == 0, back.stderr
        until_answered(steady, 4)
    finally:
        stop.set()
        for each in steady:
            each.join()
    assert [wrong for each in steady for wrong in each.wrong] == []


def test_no_request_fails_while_a_host_with_open_homes_is_stopped(
    fleet: RunningFleet, settings: Path
) -> None:
    hosts = {name: fleet.start(name) for name in ("host-1", "host-2")}
    tokens = {name: fleet.add(name, settings) for name in ("ada", "bob")}
    stop = threading.Event()
    steady = [Steady(fleet.client(hosts["host-1"], name, token), stop) for name, token in tokens.items()]
    for name in tokens:
        assert fleet.command("move", name, "--to", "host-2").returncode == 0
    for each in steady:
        each.start()
    try:
        until_answered(steady, 4)
        hosts["host-2"].stop()
        until_answered(steady, 4)
        assert {fleet.host_of(name) for name in tokens} == {"host-1"}
    finally:
        stop.set()
        for each in steady:
            each.join()
    assert [wrong for each in steady for wrong in each.wrong] == []
