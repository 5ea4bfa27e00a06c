"""The gateway of a host: who gets into which home, and that nothing of a home gets out of another."""

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from hosts import host_on, make_homes, write_settings
from memory_writers import quiet
from nexus.broker.tools import sandbox
from nexus.channels.http import ssl_context
from nexus.channels.webhook import Webhook
from nexus.gateway.hosted import TOKENS, Address, HostGateway
from nexus.gateway.listener import bind_socket
from nexus.hosting import audit
from nexus.hosting.host import Host
from nexus.hosting.limits import Limits
from nexus.hosting.local import LocalRegistry
from nexus.hosting.pool import Bounds
from nexus.hosting.registry import TokenScope
from nexus.testing import ModelServer, Turn
from push_service import PushService

CANARY = {"ada": "magenta-armadillo", "bob": "turquoise-pelican"}
# Every way to read what a home holds: pages, the API, its streams and its metrics.
_PATHS = (
    *("/chat/main", "/events", "/requests", "/memory", "/usage", "/sessions", "/settings"),
    *("/api/home", "/api/events", "/api/requests", "/api/sessions", "/api/sessions/main/transcript"),
    *("/api/usage", "/api/metrics", "/api/automations", "/api/memory/entities", "/api/openapi.json"),
    *("/mcp", "/static/icon.svg", "/nowhere"),
)


@dataclass
class Scene:
    """A host with two homes, each of which has said and remembered a word that nobody else knows."""

    host: Host
    gateway: HostGateway
    ids: dict[str, str]

    def client(self, home: str, token: str | None, **more: str) -> httpx.AsyncClient:
        """A client of one home with some token. Names below localhost need no resolver here."""
        name = f"{home}.localhost" if home else "localhost"
        headers = {"host": f"{name}:{self.gateway.port}", **more}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.gateway.port}",
            headers=headers,
            verify=ssl_context(),
            timeout=60,
        )

    def token(self, home: str, scope: TokenScope = "full") -> str:
        return self.host.registry.new_token(self.ids[home] if home else None, scope)


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    with ModelServer() as running:
        running.always(Turn("Noted."))
        yield running


@pytest.fixture
async def scene(tmp_path: Path, server: ModelServer) -> AsyncIterator[Scene]:
    async with hosting(tmp_path, server) as made:
        for name, word in CANARY.items():
            async with made.client(name, made.token(name)) as client:
                said = await client.post("/api/messages", json={"text": f"My word is {word}."})
                assert said.status_code < 300, said.text
                await client.get(f"/api/executions/{said.json()['execution_id']}/result")
                told = await client.post("/api/memory/facts", json={"fact": f"The word of {name} is {word}."})
                assert told.status_code < 300, told.text
        yield made


@asynccontextmanager
async def hosting(
    folder: Path,
    server: ModelServer,
    limits: Limits | None = None,
    more: str = "",
    bounds: Bounds | None = None,
    copies: str = "",
) -> AsyncGenerator[Scene]:
    root = folder / "host"
    ids = make_homes(root, write_settings(folder, server, more), *CANARY)
    if limits is not None:
        with LocalRegistry(root) as registry:
            for id_ in ids.values():
                registry.set_limits(id_, limits)
    with bind_socket("127.0.0.1", 0) as listening:
        async with host_on(root, bounds, copies=copies) as host, HostGateway(host, listening) as gateway:
            yield Scene(host, gateway, ids)


async def test_each_home_shows_its_own_word_and_never_the_other_s(scene: Scene) -> None:
    for name, word in CANARY.items():
        other = next(each for each in CANARY if each != name)
        async with scene.client(name, scene.token(name), accept="text/html, application/json") as client:
            shown = {path: (await client.get(path)).text for path in _PATHS if path != "/mcp"}
            shown["recall"] = (await client.get("/api/recall", params={"text": f"word of {name}"})).text
            shown["facts"] = (await client.get("/api/memory/facts", params={"text": "word"})).text
            shown["other"] = (await client.get("/api/recall", params={"text": f"word of {other}"})).text
        own = {path for path, text in shown.items() if word in text}
        assert own >= {"recall", "facts", "/chat/main", "/api/sessions/main/transcript"}
        for path, text in shown.items():
            assert CANARY[other] not in text, path


@pytest.mark.parametrize("kind", ["other", "admin", "none", "made up", "home's own file"])
async def test_nothing_but_its_own_token_opens_a_home(scene: Scene, kind: str) -> None:
    secret = scene.host.registry.home("ada").token()
    tokens = {
        "other": scene.token("bob"),
        "admin": scene.token("", "admin"),
        "none": None,
        "made up": "x" * 43,
        "home's own file": secret,
    }
    async with scene.client("ada", tokens[kind]) as client:
        for path in _PATHS:
            answer = await client.get(path)
            assert answer.status_code in {401, 429}, path
            assert CANARY["ada"] not in answer.text
        said = await client.post("/api/messages", json={"text": "Hello"})
        assert said.status_code in {401, 403, 429}


async def test_a_run_of_another_home_can_be_neither_read_nor_streamed_nor_stopped(
    scene: Scene, server: ModelServer
) -> None:
    async with scene.client("ada", scene.token("ada")) as ada, scene.client("bob", scene.token("bob")) as bob:
        run = (await ada.post("/api/messages", json={"text": "Again"})).json()["execution_id"]
        for named in (run, f"{scene.ids['ada']}/{run}", f"{scene.ids['ada']}%2F{run}"):
            for path in ("", "/result", "/stream"):
                answer = await bob.get(f"/api/executions/{named}{path}")
                assert answer.status_code in {404, 405}, path
            assert (await bob.post(f"/api/executions/{named}/cancel")).status_code in {404, 405}
        assert "Noted." in (await ada.get(f"/api/executions/{run}/stream")).text


async def test_a_home_that_is_not_there_looks_like_one_whose_token_is_wrong(scene: Scene) -> None:
    async with scene.client("ada", "x" * 43) as real, scene.client("nobody", "x" * 43) as made_up:
        for method, path in (("GET", "/api/home"), ("POST", "/hooks/news"), ("GET", "/login?code=1")):
            one, other = await real.request(method, path), await made_up.request(method, path)
            assert (one.status_code, one.text) == (other.status_code, other.text)
            assert dict(one.headers).keys() == dict(other.headers).keys()


async def test_whoever_has_no_token_opens_no_home(tmp_path: Path, server: ModelServer) -> None:
    async with hosting(tmp_path, server) as scene:
        async with scene.client("ada", "x" * 43) as client:
            assert (await client.get("/chat/main")).status_code == 401
        assert len(scene.host.pool) == 0


async def test_a_hook_opens_a_home_by_its_signature_alone(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "only the sender knows")
    hook = '\n[channels.desk]\nkind = "webhook"\nsecret = "env:HOOK_SECRET"\nowner = ["me"]\n'
    body = b'{"id": "1", "thread": "t", "sender": "me", "text": "Hello"}'
    signature = Webhook("desk", secret="only the sender knows").sign(body)
    wrong = Webhook("desk", secret="a guess").sign(body)
    async with hosting(tmp_path, server, more=hook) as scene:
        for path in ("/hooks/desk", "/hooks/nothing", "/hooks/desk/more", "/hooks/"):
            answers: list[httpx.Response] = []
            for name in ("ada", "nobody"):
                async with scene.client(name, None) as stranger:
                    headers = {"nexus-signature": wrong}
                    answers.append(await stranger.post(path, content=body, headers=headers))
            one, other = answers
            assert (one.status_code, one.text) == (401, other.text), path
            assert one.headers.keys() == other.headers.keys()
        assert len(scene.host.pool) == 0

        async with scene.client("ada", None) as sender:
            headers = {"nexus-signature": signature}
            taken = await sender.post("/hooks/desk", content=body, headers=headers)
            assert taken.status_code == 202  # once the channel of the home that it opened has started
            assert len(scene.host.pool) == 1
            assert "sender" not in scene.host.pool.redact("refused: only the sender knows")
            refused = await sender.post("/hooks/desk", content=body, headers={"nexus-signature": wrong})
            assert refused.status_code == 401


async def test_a_hook_opens_a_home_of_which_only_the_copy_is_left_by_its_signature_alone(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "only the sender knows")
    hook = '\n[channels.desk]\nkind = "webhook"\nsecret = "env:HOOK_SECRET"\nowner = ["me"]\n'
    body = b'{"id": "1", "thread": "t", "sender": "me", "text": "Hello"}'
    bounds = Bounds(idle_s=0.0, evict_after_hours=1e-9)
    copies = f"file://{tmp_path}/copies"
    async with hosting(tmp_path, server, more=hook, bounds=bounds, copies=copies) as scene:
        folder = scene.host.registry.home("ada").root
        async with scene.host.pool.use(scene.ids["ada"]) as opened:
            await opened.app.remember("The cat is grey.")
        async with asyncio.timeout(300):
            while folder.exists():
                await asyncio.sleep(0.05)
                await scene.host.pool.evict_cold()
        async with scene.client("ada", None) as sender:
            for secret, status in (("a guess", 401), ("only the sender knows", 202)):
                signature = Webhook("desk", secret=secret).sign(body)
                answer = await sender.post(
                    "/hooks/desk", content=body, headers={"nexus-signature": signature}
                )
                assert answer.status_code == status
                assert folder.exists() == (status == 202)


async def test_a_home_names_no_push_service_in_the_networks_of_its_host(scene: Scene) -> None:
    with PushService() as service:
        async with scene.client("ada", scene.token("ada")) as ada:
            refused = await ada.post("/notifications", data=service.subscription())
    assert refused.status_code == 400
    assert "not a push subscription" in refused.text


async def test_a_token_that_reads_changes_nothing(scene: Scene) -> None:
    async with scene.client("ada", scene.token("ada", "read")) as client:
        assert CANARY["ada"] in (await client.get("/api/memory/facts", params={"text": "word"})).text
        assert (await client.post("/api/messages", json={"text": "Hello"})).status_code == 403
        assert (await client.post(TOKENS)).status_code == 403


async def test_a_new_token_ends_the_old_ones(scene: Scene) -> None:
    old = scene.token("ada")
    async with scene.client("ada", old) as client:
        new = (await client.post(TOKENS)).json()["token"]
        assert (await client.get("/api/home")).status_code == 401
    async with scene.client("ada", new) as client:
        assert (await client.get("/api/home")).status_code == 200
    async with scene.client("bob", scene.token("bob")) as client:
        assert (await client.get("/api/home")).status_code == 200


async def test_no_token_is_on_the_disk(scene: Scene, tmp_path: Path) -> None:
    tokens = [scene.token("ada"), scene.token("", "admin")]
    for id_ in scene.ids.values():
        async with scene.host.pool.use(id_) as opened:
            # Histories of workspaces are written with temporary files, which come and go.
            await quiet(opened.app)
            await opened.app.automations.runner.invoker.wait_until_settled()
    for file in (tmp_path / "host").rglob("*"):
        if file.is_file():
            assert not any(token.encode() in file.read_bytes() for token in tokens), file


async def test_a_browser_is_logged_in_to_one_home(scene: Scene) -> None:
    async with scene.client("ada", scene.token("ada")) as client:
        link = (await client.post("/api/login-links")).json()["url"]
    assert link.startswith(f"http://ada.localhost:{scene.gateway.port}/login?code=")
    async with scene.client("ada", None) as browser, scene.client("bob", None) as elsewhere:
        entered = await browser.get(link.partition(str(scene.gateway.port))[2])
        cookie = entered.headers["set-cookie"].partition(";")[0]
        assert "domain" not in entered.headers["set-cookie"].lower()
        assert (await browser.get("/chat/main", headers={"cookie": cookie})).status_code == 200
        assert (await elsewhere.get("/chat/main", headers={"cookie": cookie})).status_code == 401


async def test_an_admin_manages_homes_and_reads_none(scene: Scene) -> None:
    async with scene.client("", scene.token("", "admin")) as admin:
        listed = await admin.get("/api/homes")
        assert [each["name"] for each in listed.json()["homes"]] == ["ada", "bob"]
        assert not any(word in listed.text for word in CANARY.values())
        made = (await admin.post("/api/homes", json={"name": "eve"})).json()
        assert (await admin.post("/api/homes", json={"name": "eve"})).status_code == 404
        assert (await admin.post("/api/homes", json={"name": "../ada"})).status_code == 422
        async with scene.client("eve", made["token"]) as eve:
            assert (await eve.get("/api/home")).status_code == 200
        changed = await admin.patch("/api/homes/eve/limits", json={"rate_per_s": 7})
        assert changed.json()["rate_per_s"] == 7
        assert (await admin.patch("/api/homes/eve/limits", json={"rate_per_s": 0})).status_code == 422
        assert (await admin.delete("/api/homes/eve")).status_code == 204
        assert [each["name"] for each in (await admin.get("/api/homes")).json()["homes"]] == ["ada", "bob"]
        # Nothing of a home is below the bare name, and no other token manages.
        for path in _PATHS:
            assert (await admin.get(path)).status_code == 404
    async with scene.client("", scene.token("ada")) as owner:
        assert (await owner.get("/api/homes")).status_code == 401


async def test_a_home_has_its_own_rate(tmp_path: Path, server: ModelServer) -> None:
    async with hosting(tmp_path, server, Limits(rate_per_s=1)) as scene:
        async with scene.client("ada", scene.token("ada")) as ada:
            codes = [(await ada.get("/nowhere")).status_code for _ in range(12)]
        assert 429 in codes
        async with scene.client("bob", scene.token("bob")) as bob:
            assert (await bob.get("/api/home")).status_code == 200


def test_a_name_before_the_host_s_names_a_home() -> None:
    public = Address.of("https://Agents.example:8443", 7807)
    assert public.of_home("ada") == "https://ada.agents.example:8443"
    assert public.home_in("Ada.agents.example:8443") == "ada"
    names = (
        "agents.example",
        "ada.example",
        "a.b.agents.example",
        "ada.agents.example.org",
        "127.0.0.1:7807",
    )
    assert [public.home_in(host) for host in names] == [""] * len(names)
    assert Address.of("", 7807).of_home("ada") == "http://ada.localhost:7807"


async def test_what_is_managed_is_in_the_audit_log_and_what_is_said_is_not(
    scene: Scene, tmp_path: Path
) -> None:
    admin_token, old = scene.token("", "admin"), scene.token("ada")
    async with scene.client("", admin_token) as admin:
        assert (await admin.post("/api/homes", json={"name": "eve"})).status_code == 201
        assert (await admin.post("/api/homes", json={"name": "eve"})).status_code == 404
        assert (await admin.patch("/api/homes/eve/limits", json={"rate_per_s": 7})).status_code == 200
        assert (await admin.delete("/api/homes/eve")).status_code == 204
    async with scene.client("ada", old) as owner:
        link = (await owner.post("/api/login-links")).json()["url"]
        new = (await owner.post(TOKENS)).json()["token"]
        assert (await owner.get("/api/home")).status_code == 401
        assert (await owner.get(link.partition(str(scene.gateway.port))[2])).status_code == 200
        assert (await owner.get(link.partition(str(scene.gateway.port))[2])).status_code == 401
    text = audit.path(tmp_path / "host").read_text()
    entries = [json.loads(line) for line in text.splitlines()]
    # A client of another program's, whose port this one was given, may still ask for its own homes.
    found = [each for each in entries if each.get("home") in {None, "eve", *CANARY}]
    by_admin, by_owner = audit.by_token(admin_token), audit.by_token(old)
    assert [(each["act"], each["who"], each.get("home"), each["result"]) for each in found[1:]] == [
        ("home.add", by_admin, "eve", "ok"),
        ("token.create", by_admin, "eve", "ok"),
        ("home.add", by_admin, "eve", "failed"),
        ("home.limit", by_admin, "eve", "ok"),
        ("home.remove", by_admin, "eve", "ok"),
        ("token.rotate", by_owner, "ada", "ok"),
        ("token.use", by_owner, "ada", "refused"),
        ("login", "login link", "ada", "ok"),
        ("login", "login link", "ada", "refused"),
    ]
    assert found[0]["act"] == "host.start"
    assert not any(secret in text for secret in (admin_token, old, new, *CANARY.values()))


SPY = """
import pathlib

def run(ctx):
    files = [path for path in pathlib.Path({root!r}).rglob("*.db*") if path.is_file()]
    seen = sum({word!r}.encode() in path.read_bytes() for path in files)
    return {{"log": {{"found": f"{{seen}} of {{len(files)}}"}}}}
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary directory beside the homes: the usual one, which holds them here, is empty in a sandbox."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", str(place))


@pytest.mark.usefixtures("temporary")
async def test_a_trial_of_a_script_finds_nothing_of_another_home(scene: Scene, tmp_path: Path) -> None:
    missing = await sandbox.availability()
    if missing is not None:
        pytest.skip(missing.reason)
    source = SPY.format(root=str(tmp_path / "host"), word=CANARY["bob"])
    given = {"source": source, "hook_point": "runAutomations", "blocking": "yes", "retries": "0"}
    async with scene.client("ada", scene.token("ada")) as client:
        tried = await client.post("/automations/trial", data=given)
    assert "0 of 0" in tried.text
