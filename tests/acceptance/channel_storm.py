"""Kills a home at random while people write to it by mail and over Matrix, and says what became of it all.

Of any size, by hand: `PYTHONPATH=tests python -m acceptance.channel_storm --kills 60 --seed 1`.
"""

import argparse
import random
import smtplib
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

from acceptance.agents import environment, finish, rows, until
from acceptance.on_channels import echo_word
from acceptance.running import Served, serving
from mail_servers import AGENT, AUTH_SERVER, PASSWORD, Dovecot, Post, mail_servers
from matrix_server import Person, Synapse, homeserver
from new_homes import new_home
from nexus.home import Home
from nexus.testing import ModelServer

_ME = "me@home.example"
_WINDOW_S = 3.0
"""A home is killed within that time after somebody wrote: while it receives, answers or sends."""


@dataclass(kw_only=True)
class Report:
    """What a storm left. `problems` must be empty."""

    kills: int
    mails: int = 0
    matrix_messages: int = 0
    repeated_mails: int = 0
    """Answers that SMTP took twice, under one Message-ID: the protocol allows that."""
    problems: list[str] = field(default_factory=list[str])


@dataclass(kw_only=True)
class Scene:
    """A home that is reached by mail and over Matrix."""

    home: Home
    env: dict[str, str]
    post: Post
    me: Person
    room: str

    def write(self, number: int) -> None:
        """Ask something by mail, and something else over Matrix."""
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Message-ID"] = _ME, AGENT, f"<m{number}@home.example>"
        mail.set_content(f"This is word{number}m")
        with smtplib.SMTP("127.0.0.1", self.post.port) as client:
            client.login(_ME, PASSWORD)
            client.sendmail(_ME, [AGENT], mail.as_bytes(policy=SMTP))
        self.me.say(self.room, f"This is word{number}x")

    def answered_mails(self) -> dict[str, str]:
        """What was answered, by the Message-ID of the answer."""
        sent = zip(list(self.post.sent), self.post.texts(), strict=False)
        return {str(mail["Message-ID"]): text for mail, text in sent}


def scene(home: Home, server: ModelServer, servers: tuple[Dovecot, Post], synapse: Synapse) -> Scene:
    """Connect a home to both servers. Its owner writes from each."""
    dovecot, post = servers
    agent, me = synapse.register(f"agent{time.time_ns()}"), synapse.register(f"me{time.time_ns()}")
    with home.config_file.open("a") as config:
        config.write(
            f'\n[channels.mail]\nkind = "email"\naddress = "{AGENT}"\nsecret = "env:MAIL_PASSWORD"\n'
            f'imap = "127.0.0.1:{dovecot.port}"\nsmtp = "127.0.0.1:{post.port}"\ntls = false\n'
            f'auth_server = "{AUTH_SERVER}"\nowner = ["{_ME}"]\n'
            f'\n[channels.matrix]\nkind = "matrix"\nurl = "{synapse.url}"\nsecret = "env:MATRIX_TOKEN"\n'
            f'owner = ["{me.id}"]\n'
        )
    env = environment(server, MAIL_PASSWORD=PASSWORD, MATRIX_TOKEN=agent.token)
    return Scene(home=home, env=env, post=post, me=me, room=me.open_room(agent.id))


def storm(place: Scene, *, kills: int, seed: int, each: int = 2) -> Report:
    """Write, kill, and begin again; at the end let everything be answered, and count."""
    chance = random.Random(seed)
    report = Report(kills=kills)
    with serving(place.home, place.env):
        place.me.say(place.room, "This is wordready")
        until(lambda: place.me.heard(place.room))
        until(lambda: _is_connected(place))
    numbers = 0
    for _ in range(kills):
        served = Served(place.home, place.env)
        try:
            for _ in range(each):
                place.write(numbers)
                numbers += 1
            time.sleep(chance.uniform(0, _WINDOW_S))
        finally:
            served.kill()
    report.mails = report.matrix_messages = numbers
    with serving(place.home, place.env):
        until(lambda: len(place.answered_mails()) >= numbers)
        until(lambda: len(place.me.heard(place.room)) > numbers)
        checked = finish(place.home, place.env, "doctor", "--deep")
        if checked.returncode:
            report.problems.append(checked.stdout)
    _judge(place, report, numbers)
    return report


def _is_connected(place: Scene) -> bool:
    return finish(place.home, place.env, "channels", "list").stdout.count("connected") == len(
        ("mail", "matrix")
    )


def _judge(place: Scene, report: Report, numbers: int) -> None:
    mails = Counter(place.answered_mails().values())
    report.repeated_mails = len(place.post.sent) - mails.total()
    said = Counter(place.me.texts(place.room))
    for suffix, answers in (("m", mails), ("x", said)):
        expected = Counter(f"You said word{number}{suffix}" for number in range(numbers))
        if suffix == "x":
            expected["You said wordready"] = 1
        report.problems += [f"lost: {text}" for text in expected - answers]
        report.problems += [f"too many: {text}" for text in answers - expected]
    twice = (
        "SELECT channel, external_id FROM events WHERE direction = 'inbound' "
        "GROUP BY 1, 2 HAVING count(*) > 1"
    )
    report.problems += [f"recorded twice: {row}" for row in rows(place.home, "events", twice)]
    answered = (
        "SELECT reply_to_event_id FROM events WHERE direction = 'outbound' AND channel IN ('mail', 'matrix') "
        "GROUP BY 1 HAVING count(*) > 1"
    )
    report.problems += [f"answered twice: {row}" for row in rows(place.home, "events", answered)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill a home at random under mail and Matrix messages.")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="nexus-channels-") as folder,
        ModelServer() as server,
        mail_servers() as servers,
        homeserver() as synapse,
    ):
        server.always(echo_word)
        home = new_home(Path(folder) / "home")
        report = storm(scene(home, server, servers, synapse), kills=given.kills, seed=given.seed)
    print(report)  # noqa: T201
    raise SystemExit(bool(report.problems))


if __name__ == "__main__":
    main()
