"""Matrix on a home that really runs, with a real homeserver: answered in the room where somebody wrote."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from acceptance.agents import environment, finish, until
from acceptance.channel_storm import scene, storm
from acceptance.on_channels import echo_word, recalling, sending
from acceptance.running import serving
from attached_files import pdf, png
from long_form import times
from mail_servers import mail_servers
from matrix_server import Person, Synapse, homeserver
from nexus import config
from nexus.home import Home
from nexus.testing import ModelServer
from transcription_server import TranscriptionServer

_numbers = count()


@pytest.fixture(scope="module")
def synapse() -> Iterator[Synapse]:
    with homeserver() as made:
        yield made


@pytest.fixture
def agent(synapse: Synapse) -> Person:
    return synapse.register(f"agent{next(_numbers)}")


@pytest.fixture
def me(synapse: Synapse) -> Person:
    return synapse.register(f"me{next(_numbers)}")


@pytest.fixture
def sam(synapse: Synapse) -> Person:
    return synapse.register(f"sam{next(_numbers)}")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that agents may read."""
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "map.png").write_bytes(png())
    return folder


@pytest.fixture
def env(
    home: Home, server: ModelServer, synapse: Synapse, agent: Person, me: Person, shared: Path
) -> dict[str, str]:
    """A home with an account on the homeserver, whose owner writes as `me`."""
    with home.config_file.open("a") as config:
        config.write(
            f'\n[channels.matrix]\nkind = "matrix"\nurl = "{synapse.url}"\nsecret = "env:MATRIX_TOKEN"\n'
            f'owner = ["{me.id}"]\n'
        )
    return environment(server, MATRIX_TOKEN=agent.token, NEXUS_TOOLS_DIRECTORIES=str(shared))


def test_the_owner_is_told_what_was_learned_elsewhere_and_a_guest_is_not(
    home: Home, env: dict[str, str], server: ModelServer, agent: Person, me: Person, sam: Person
) -> None:
    server.always(recalling)
    with serving(home, env):
        told = finish(home, env, "run", "--no-wait", "My door code is 4711-Zebra")
        assert told.returncode == 0, told.stderr
        mine = me.open_room(agent.id)
        asked = me.say(mine, "What is the door code? Owner")
        until(lambda: me.heard(mine))
        theirs = sam.open_room(agent.id)
        until(lambda: sam.heard(theirs))
        code = sam.texts(theirs)[0].split("code ")[1].rstrip(".")
        assert finish(home, env, "access", "approve", code).returncode == 0
        sam.say(theirs, "What is the door code? Guest")
        until(lambda: len(sam.heard(theirs)) == 2)
        assert finish(home, env, "doctor", "--deep").returncode == 0
    assert me.texts(mine) == ["Here is what I know."]
    assert me.heard(mine)[0]["content"]["m.relates_to"]["m.in_reply_to"]["event_id"] == asked
    bodies = [request.body for request in server.requests]
    assert any(b"Owner" in body and b"Zebra" in body for body in bodies)
    guests = [body for body in bodies if b"Guest" in body]
    assert guests
    assert not any(b"Zebra" in body or b"Owner" in body for body in guests)


def test_files_both_ways_and_a_group_is_answered_when_addressed(
    home: Home, env: dict[str, str], server: ModelServer, agent: Person, me: Person, sam: Person, shared: Path
) -> None:
    server.always(sending(shared / "map.png"))
    with serving(home, env):
        room = me.open_room(agent.id, sam.id, direct=False, name="Trip")
        sam.join(room)
        sam.say(room, "Nobody asked: word0")
        me.attach(
            room, f"{agent.id} read this: word1", pdf("Zebra crossing"), "application/pdf", filename="a.pdf"
        )
        until(lambda: me.heard(room))
        until(lambda: "You said word1" in me.texts(room))
        alone = me.open_room(agent.id)
        me.say(alone, "Send me the file")
        until(lambda: len(me.heard(alone)) == 2)
        sam.say(room, f"{agent.id} Send me the file")
        until(lambda: "code" in me.texts(room)[-1])
    assert b"Zebra crossing" in server.requests[0].body, "the model read the PDF"
    assert me.texts(room)[:2] == ["Nobody asked: word0", "You said word1"]
    answer, file = [each["content"] for each in me.heard(alone)]
    assert answer["body"] == "Here is the file."
    assert (file["msgtype"], file["body"], file["info"]["mimetype"]) == ("m.image", "map.png", "image/png")
    assert me.download(file["url"]) == png()
    assert not any("url" in each["content"] for each in me.heard(room)), "a stranger gets no file"


def test_a_voice_note_is_answered(
    home: Home, env: dict[str, str], server: ModelServer, agent: Person, me: Person
) -> None:
    server.always(echo_word)
    speech = TranscriptionServer()
    recording = b"OggS, as far as anybody looks"
    speech.said[recording] = "This is word7"
    with home.config_file.open("a") as config:
        config.write(f'\n[providers.speech]\nkind = "openai"\nbase_url = "{speech.url}"\n')
    try:
        with serving(home, env | {"NEXUS_VOICE_MODEL": "speech/whisper-1"}):
            room = me.open_room(agent.id)
            me.attach(room, "Voice message.ogg", recording, "audio/ogg", msgtype="m.audio")
            until(lambda: me.texts(room))
    finally:
        speech.close()
    assert me.texts(room) == ["You said word7"]


def test_killed_at_random_mail_and_matrix_messages_are_answered_once(
    home: Home, server: ModelServer, synapse: Synapse
) -> None:
    """A mail may be sent again under the same Message-ID; Matrix takes a message once."""
    server.always(echo_word)
    with mail_servers() as servers:
        report = storm(scene(home, server, servers, synapse), kills=times(1, long=20), seed=5)
    assert report.problems == []


def test_the_guided_setup_logs_in(home: Home, synapse: Synapse, agent: Person) -> None:
    name = agent.id.split(":")[0][1:]
    env = environment(None, MATRIX_PASSWORD=f"{name}-password")
    asked = ("channels", "add", "matrix", "--url", synapse.url)
    done = finish(home, env, *asked, stdin=f"{agent.id}\n\n@me:matrix.example\n")
    assert done.returncode == 0, done.stderr
    assert f"Logged in as {agent.id}." in done.stdout
    settings = config.load(home.config_file, {}).channels["matrix"]
    assert (settings.owner, settings.user, settings.url) == (("@me:matrix.example",), agent.id, synapse.url)
    wrong = finish(
        home, {**env, "MATRIX_PASSWORD": "wrong"}, *asked, "--name", "other", stdin=f"{agent.id}\n\n"
    )
    assert wrong.returncode != 0
    assert "Can't log in" in wrong.stderr
