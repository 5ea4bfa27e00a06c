"""One frozen Config, read once, from config.toml and NEXUS_* variables.

Every setting is a field below with its default, its unit in its name and one sentence; the commented
config.toml that `nexus init` writes and the settings page of the docs are generated from them.
A variable wins over the file: `[ledgers] busy_timeout_ms` is `NEXUS_LEDGERS_BUSY_TIMEOUT_MS`.
"""

import ipaddress
import os
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args, get_origin
from urllib.parse import urlsplit

from nexus import settings as reading
from nexus.errors import ConfigError
from nexus.settings import Setting
from nexus.settings import setting as _setting
from nexus.text import join_lines


@dataclass(frozen=True, kw_only=True)
class LedgersConfig:
    """The six SQLite databases."""

    busy_timeout_ms: int = _setting(30_000, "How long a write waits for another process before it fails.")
    synchronous: Literal["full", "normal"] = _setting(
        "full",
        (
            "`full`: acknowledged writes survive a power cut. `normal`: they survive a crash; a "
            "power cut may lose the last moments. The embeddings ledger is always `normal`."
        ),
    )
    cache_kib: int = _setting(2_048, "Page cache per connection.")
    readers: int = _setting(4, "Maximum read connections per database.", least=1)


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """The durable engine: queues and schedules."""

    database: str = _setting(
        "",
        "URL of a Postgres database for this home only. Empty: `data/engine.db` in the home.",
        held=True,
    )
    host_limit: int = _setting(256, "Maximum concurrent executions per process.", least=1)
    lease_ms: int = _setting(10_000, "Postgres: how long a frozen process keeps its locks.", least=1_000)
    synchronous: Literal["full", "normal"] = _setting(
        "full",
        (
            "`full`: acknowledged work survives a power cut. `normal`: it survives a crash; a "
            "power cut may lose the last moments."
        ),
    )
    retention_days: int = _setting(30, "How long finished work is kept. Dead letters stay.")


WriterSetting = Literal["auto", "structured", "code"]
InjectionSetting = Literal["rules", "model"]


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """What to remember, and how to search it."""

    embedding_model: str = _setting(
        "nexus-english",
        (
            "Embedding model; see `nexus models list`. After a change, everything is embedded "
            "again in the background."
        ),
    )
    embedding_model_path: str = _setting(
        "",
        "Path of the model's file or folder. Empty: an installed package or `nexus models pull`.",
        held=True,
    )
    phone_region: str = _setting("", "Default country of phone numbers, such as `CH`. Empty: none.")
    writer: WriterSetting = _setting(  # noqa: RUF009 - as every setting
        "auto",
        (
            "Mode of the memory writer. `structured`: one call per turn with a JSON answer, for "
            "any model. `code`: an agent with scripts and SQL, for strong models. `auto`: `structured`, "
            "unless `nexus models test` found that the model calls tools but writes no JSON."
        ),
    )
    injection: InjectionSetting = _setting(  # noqa: RUF009 - as every setting
        "rules",
        (
            "Who picks the memories that a message gets. `rules`: no model. `model`: the one of "
            "`[models] fast`, with a call for every message that needs memories."
        ),
    )
    keep_codes: bool = _setting(
        True,
        (
            "Whether to keep door codes and account numbers (IBAN). Passwords, keys, tokens and "
            "card numbers are never kept."
        ),
    )
    consolidation: bool = _setting(
        True, "Whether to consolidate facts into observations automatically, if a model is set."
    )
    consolidation_facts: int = _setting(40, "Maximum facts per consolidation batch.", least=1)
    consolidation_tokens: int = _setting(
        6_000, "Maximum tokens of facts per batch; at least one fact.", least=1
    )
    consolidation_batches: int = _setting(20, "Maximum batches per consolidation run.", least=1)
    refreshed_models: int = _setting(5, "Maximum stale mental models refreshed per hour. 0: none.")
    conclusions_tokens_a_day: int = _setting(
        500_000,
        "Daily token limit (UTC) of automatic consolidation and reflection. 0: no limit.",
    )
    conclusions_usd_a_day: float = _setting(1.0, "The same in US dollars, if prices are known. 0: no limit.")


@dataclass(frozen=True, kw_only=True)
class ModelsConfig:
    """The model of each role, as `provider/model`. In a list, the next one is a fallback."""

    manager: tuple[str, ...] = _setting((), "Talks to you and delegates work.")
    worker: tuple[str, ...] = _setting((), "Does delegated work. Default: the model you talk to.")
    fast: tuple[str, ...] = _setting(
        (), "Makes small, quick decisions. Default: the model for delegated work."
    )
    writer: tuple[str, ...] = _setting(
        ("manager",), "Writes the memory after each turn. `manager`: the model you talk to. `none`: off."
    )
    consolidation: tuple[str, ...] = _setting(
        (), ("Consolidates facts into observations. Default: the one that writes the memory.")
    )
    reflection: tuple[str, ...] = _setting(
        (), "Answers `nexus reflect`. Default: the model for delegated work."
    )

    @property
    def writers(self) -> tuple[str, ...]:
        """The models that write the memory, by name; none if it is off or nobody answers at all."""
        named = (self.manager if name == "manager" else (name,) for name in self.writer if name != "none")
        return tuple(dict.fromkeys(name for names in named for name in names))

    @property
    def roles(self) -> dict[str, list[str]]:
        """The roles of each model that the settings name."""
        used: dict[str, list[str]] = {}
        for each in fields(self):
            for name in self.writers if each.name == "writer" else getattr(self, each.name):
                used.setdefault(name, []).append(each.name)
        return used


@dataclass(frozen=True, kw_only=True)
class ProviderConfig:
    """A place where models are served.

    Known without a section: anthropic, openai, google, mistral, groq, openrouter, azure, bedrock, and on this
    machine ollama, lmstudio, llamacpp and vllm. `builtin` runs a small model itself.
    """

    kind: Literal[
        "anthropic", "openai", "google", "mistral", "groq", "openrouter", "azure", "bedrock", "builtin"
    ] = _setting(
        "openai",
        (
            "API format. Ollama, llama.cpp, vLLM and many others use `openai`; `builtin` is a "
            "model that Nexus runs itself."
        ),
    )
    base_url: str = _setting("", "Base URL. Empty: the provider's default.", held=True)
    api_key: str = _setting(
        "",
        "Where the API key is: `env:NAME`, `file:PATH` or `keyring:SERVICE/USER`. Empty: no key.",
        secret=True,
    )
    auth_token: str = _setting("", "Where a bearer token is, instead of an API key.", secret=True)
    headers: Mapping[str, str] = _setting(
        {}, "Extra headers; a value may name a secret: `Bearer env:TOKEN`.", held=True
    )
    timeout_ms: int = _setting(120_000, "Timeout until an answer starts.", least=1)
    stall_ms: int = _setting(60_000, "Maximum pause within an answer.", least=1)
    max_retries: int = _setting(
        4,
        "Retries before the next model is tried.",
    )
    concurrency: int = _setting(0, "Maximum concurrent requests. 0: as many as the server reports.")
    temperature: float = _setting(
        -1.0,
        "Sampling temperature, from 0 to 2. -1: 0.2 on a local server, because small models lose the thread "
        "at the usual 0.8; elsewhere the provider's default.",
        least=-1,
    )

    @cached_property
    def is_local(self) -> bool:
        """Whether it runs on this machine or in this network: it is slow rather than absent, and free."""
        if self.kind == "builtin":
            return True
        host = urlsplit(self.base_url).hostname or ""
        with suppress(ValueError):
            return ipaddress.ip_address(host).is_private
        return host == "localhost" or host.endswith((".localhost", ".local", ".lan", ".internal"))


@dataclass(frozen=True, kw_only=True)
class PriceConfig:
    """The price of a model in US dollars per million tokens, such as `[prices."ollama/qwen3"]`.

    Overrides the public price list. 0: free.
    """

    fresh_usd: float = _setting(0.0, "Input tokens, uncached or written to a cache.")
    cached_usd: float = _setting(0.0, "Input tokens read from a cache.")
    output_usd: float = _setting(0.0, "Output tokens.")


@dataclass(frozen=True, kw_only=True)
class AgentsConfig:
    """Limits of agents. For spending limits, see [budgets]."""

    max_turns: int = _setting(50, "Maximum model calls per run.", least=1)
    timeout_ms: int = _setting(
        1_800_000, "Maximum duration of a run. It begins again when a run resumes after a restart.", least=1
    )
    max_requests: int = _setting(
        500, "Maximum model calls per message, including all work it leads to. 0: no limit."
    )
    context_tokens: int = _setting(
        0,
        (
            "Conversation length at which older turns are summarized. 0: what the model's window "
            "allows, at most 150,000."
        ),
    )
    output_tokens: int = _setting(
        0,
        (
            "Maximum tokens per answer. 0: 8,192 for you and workers, 4,096 for the memory's own "
            "work, four times that for thinking models, at most a quarter of the model's window. "
            "Choosing memories with `[models] fast` takes 300 at most, without thinking."
        ),
    )
    outage_ms: int = _setting(
        3_600_000, "How long a message waits during a provider outage. 0: fail immediately."
    )
    quiet_ms: int = _setting(
        60_000,
        "On a model server with one slot: how long nobody may have used it before background work, such as "
        "the memory writer, does. A message interrupts background work, each request at most three times and "
        "for 15 minutes.",
    )
    max_depth: int = _setting(2, "How deep workers may nest. 0: no workers.")
    max_workers: int = _setting(8, "Maximum concurrent workers per run.")


@dataclass(frozen=True, kw_only=True)
class BudgetsConfig:
    """Spending limits in US dollars and tokens, checked before each model call. 0: no limit.

    Dollar limits apply to models with a known price, from the public list or [prices.NAME]. Token limits
    always apply. Days and months are in UTC.
    """

    request_usd: float = _setting(10.0, "Maximum cost of one message and all work it leads to.")
    request_tokens: int = _setting(0, "The same in tokens.")
    automation_usd: float = _setting(0.0, "Maximum daily cost of each automation.")
    automation_tokens: int = _setting(0, "The same in tokens.")
    guest_usd: float = _setting(1.0, "Maximum daily cost of each person other than you.")
    guest_tokens: int = _setting(1_000_000, "The same in tokens.")
    guests_usd: float = _setting(5.0, "Maximum daily cost of all of them together.")
    guests_tokens: int = _setting(5_000_000, "The same in tokens.")
    day_usd: float = _setting(0.0, "Maximum daily cost of the home.")
    day_tokens: int = _setting(0, "The same in tokens.")
    month_usd: float = _setting(0.0, "Maximum monthly cost of the home.")
    month_tokens: int = _setting(0, "The same in tokens.")


@dataclass(frozen=True, kw_only=True)
class ToolsConfig:
    """What your agent's tools may access."""

    directories: tuple[str, ...] = _setting(
        (),
        "Directories they may read, such as `~/notes`; append `:rw` to allow writes.",
        held=True,
    )
    network: bool = _setting(False, "Whether commands may use the network.", held=True)
    ask: tuple[str, ...] = _setting(
        (),
        "Calls to ask you about first: a tool such as `bash`, one with a value in any argument such as "
        "`bash(git push *)`, or in a named one such as `files__delete(path=/etc/*)`; `*` is any. A "
        "convenience, not a boundary: that is the sandbox. Empty: none.",
    )
    ask_when_tainted: tuple[str, ...] = _setting(
        ("send", "publish", "pay", "delete", "schedule(op=ask)"),
        "Calls to ask you about in a run that has read text you didn't write, such as mail, web pages, "
        "guests' messages or results of MCP servers: what tools do (`send`, `publish`, `pay`, `delete`), "
        "or patterns as in `ask`. Empty: none.",
        held=True,
    )


@dataclass(frozen=True, kw_only=True)
class WebConfig:
    """The web tools. Agents that work for you have them; anyone else needs a grant."""

    fetch: Literal["given", "any", "off"] = _setting(
        "given",
        (
            "Which public pages `web_fetch` reads. `given`: URLs from the conversation, from "
            "fetched pages and from `web_search`. `any`: all; a malicious page could make the "
            "model leak data in a URL. `off`: none."
        ),
        held=True,
    )
    search_url: str = _setting(
        "",
        (
            "SearXNG URL for `web_search`, such as `http://localhost:8888/search`. The server "
            "must allow the format `json`. Empty: off."
        ),
        held=True,
    )
    provider_search: bool = _setting(
        False,
        (
            "Whether models use their provider's search tool. Providers charge per search, and "
            "some require enabling it in your account."
        ),
        held=True,
    )


@dataclass(frozen=True, kw_only=True)
class AttachmentsConfig:
    """Files that come with a message."""

    max_bytes: int = _setting(20_971_520, "Maximum size of one file.", least=1)
    max_files: int = _setting(10, "Maximum files per message.", least=1)
    text_characters: int = _setting(
        60_000, "Maximum characters of one text or PDF shown to the model.", least=1
    )


@dataclass(frozen=True, kw_only=True)
class VoiceConfig:
    """Voice notes, which are transcribed and answered like written messages."""

    model: str = _setting(
        "moonshine/tiny-en",
        "Who transcribes: `moonshine/tiny-en` or `whisper/base` on this machine, or a provider's model, such "
        "as `openai/whisper-1`. Empty: nobody.",
        held=True,
    )
    language: str = _setting("", "Language of the recordings, such as `de`. Empty: it is recognized.")
    max_minutes: int = _setting(60, "The longest recording that is transcribed.", least=1)


@dataclass(frozen=True, kw_only=True)
class McpConfig:
    """An MCP server whose tools agents may call. Unless `sandbox` is set, a program runs with your rights."""

    command: str = _setting("", "Program to start.", held=True)
    args: tuple[str, ...] = _setting((), "Its arguments.", held=True)
    env: Mapping[str, str] = _setting(
        {}, "Environment variables; a value may name a secret, such as `env:TOKEN`.", held=True
    )
    url: str = _setting("", "URL, instead of a program.", held=True)
    headers: Mapping[str, str] = _setting(
        {}, "Headers; a value may name a secret: `Bearer env:TOKEN`.", held=True
    )
    oauth: str = _setting(
        "", "Where the sign-in is kept, such as `file:PATH`. `nexus mcp add` sets it.", held=True, secret=True
    )
    sandbox: bool = _setting(
        False, "Run the program in the sandbox, without a network. It sees what `[tools] directories` grants."
    )
    start_timeout_ms: int = _setting(30_000, "Timeout for starting.", least=1)
    timeout_ms: int = _setting(60_000, "Timeout per call.", least=1)


@dataclass(frozen=True, kw_only=True)
class PythonToolConfig:
    """A tool of an installed Python package.

    Without a section of its own it runs in the sandbox, with the agent's directories and without a network.
    """

    run: Literal["sandbox", "process", "off"] = _setting(
        "sandbox",
        "`sandbox`: in a process of its own that reaches what the agent's tools may, and what is granted "
        "here. `process`: inside Nexus, with all your rights. `off`: agents don't have it.",
        held=True,
    )
    network: bool = _setting(False, "Whether it may use the network in the sandbox.", held=True)
    directories: tuple[str, ...] = _setting(
        (), "Directories that it may read in the sandbox; append `:rw` to allow writes.", held=True
    )
    environment: Mapping[str, str] = _setting(
        {},
        "Environment variables that it gets in the sandbox; a value may name a secret, such as `env:TOKEN`.",
        held=True,
    )
    timeout_ms: int = _setting(60_000, "Timeout per call.", least=1)


ChannelKind = Literal["program", "webhook", "email", "telegram", "matrix", "slack", "discord", "notify"]
CHANNEL_KINDS: Final = get_args(ChannelKind)
"""The kinds of channels that ship with Nexus."""


@dataclass(frozen=True, kw_only=True)
class ChannelConfig:
    """A channel through which people reach the agent, such as email or Telegram.

    Unknown senders get a pairing code; let them in with `nexus access approve`.
    """

    kind: str = _setting(
        "program",
        "What connects it: your own `program`, signed HTTP requests (`webhook`), a mail account (`email`), a "
        "`telegram` bot, a `matrix` account, a `slack` app, a `discord` bot, notifications through Apprise "
        "(`notify`), or a kind that an installed Python package offers.",
    )
    options: Mapping[str, str] = _setting(
        {},
        "A package's kind: what its adapter is made with; a value may name a secret, such as `env:TOKEN`.",
        held=True,
    )
    owner: tuple[str, ...] = _setting(
        (),
        "Your own addresses, numbers or handles there, as the channel writes them. They have your rights.",
        held=True,
    )
    answer: Literal["addressed", "always", "never"] = _setting(
        "addressed",
        "Which messages in a group are answered. `addressed`: those meant for the agent. The others are only "
        "recorded.",
    )
    quiet_hours: str = _setting(
        "",
        "When only answers are sent, such as `22:00-07:00`. Scheduled messages and results of workers wait "
        "until the hours end.",
    )
    zone: str = _setting(
        "", "Time zone of `quiet_hours`, such as `Europe/Berlin`. Empty: `zone` of `[automations]`."
    )
    command: tuple[str, ...] = _setting((), "program: the command and its arguments.", held=True)
    env: Mapping[str, str] = _setting(
        {}, "program: environment variables; a value may name a secret, such as `env:TOKEN`.", held=True
    )
    secret: str = _setting(
        "",
        "Where the secret is, such as `env:NAME`. webhook: the signing key. email: the password. telegram: "
        "the bot's token. matrix: the password, or an access token if `user` is empty. slack: the bot token "
        "(`xoxb-…`). discord: the bot's token. notify: addresses of services, separated by spaces.",
        secret=True,
    )
    app_token: str = _setting(
        "", "slack: where the app-level token (`xapp-…`) is, such as `env:SLACK_APP_TOKEN`.", secret=True
    )
    url: str = _setting(
        "",
        "webhook: where answers are posted; empty: nowhere. telegram, slack, discord: another server of the "
        "API. matrix: the homeserver, such as `https://matrix.example.org`.",
        held=True,
    )
    signature: Literal["timed", "body"] = _setting(
        "timed",
        "webhook: how requests are signed. `timed`: with a timestamp, which prevents replays. `body`: the "
        "body alone, as GitHub does.",
    )
    signature_header: str = _setting("", "webhook: the header with the signature. Empty: `Nexus-Signature`.")
    fields: Mapping[str, str] = _setting(
        {},
        "webhook: where in the body to find `id`, `thread`, `sender`, `sender_name` and `text`, such as "
        "`comment.user.login`; or `=TEXT` for the text itself. Without an `id`, a message is "
        "known by its body.",
    )
    body: str = _setting(
        "",
        "webhook: template of the JSON to post, with {text}, {thread}, {key} and {reply_to}. Empty: an "
        "object with these four.",
    )
    address: str = _setting("", "email: the agent's address. Answers come from it.", held=True)
    user: str = _setting(
        "", "email: login name. Empty: the address. matrix: the agent's id, such as `@agent:example.org`."
    )
    token_command: tuple[str, ...] = _setting(
        (), "email: a program that prints an OAuth 2.0 access token, instead of a password.", held=True
    )
    imap: str = _setting("", "email: IMAP server, such as `imap.example.org`; default port 993.", held=True)
    smtp: str = _setting("", "email: SMTP server, such as `smtp.example.org`; default port 465.", held=True)
    tls: bool = _setting(
        True,
        "email: encrypt. Ports 993 and 465 use TLS from the start, others STARTTLS. `false` is allowed only "
        "for servers on this machine.",
    )
    folder: str = _setting("INBOX", "email: the folder to read.")
    auth_server: str = _setting(
        "",
        "email: the name at the start of the `Authentication-Results` headers of your mail server, such as "
        "`mx.google.com`. Mail that fails its check is not answered; without a name, none is.",
        held=True,
    )


@dataclass(frozen=True, kw_only=True)
class AutomationsConfig:
    """What runs at hook points."""

    timeout_ms: int = _setting(10_000, "Default timeout of blocking automations.", least=1)
    async_timeout_ms: int = _setting(300_000, "Default timeout of async automations.", least=1)
    budget_ms: int = _setting(
        10_000, "How long all blocking automations at one hook point may take together.", least=1
    )
    decision_budget_ms: int = _setting(
        30_000, "The same at `runAutomations`, where an automation may answer.", least=1
    )
    worker_budget_ms: int = _setting(
        10_000, "The same at `worker:pre_execution`, before a worker begins.", least=1
    )
    startup_budget_ms: int = _setting(
        30_000, "The same at `gateway:startup`, which no request waits for.", least=1
    )
    circuit_errors: int = _setting(3, "Consecutive errors that open the circuit breaker.", least=1)
    circuit_cooldown_ms: int = _setting(60_000, ("How long the circuit stays open before a trial run."))
    memory_mib: int = _setting(512, "Maximum memory per script process.", least=32)
    sandbox_all: bool = _setting(
        False, "Whether every script runs in the sandbox, including those you trusted.", held=True
    )
    missed: Literal["once", "skip"] = _setting(
        "once",
        "What happens to schedules and reminders missed while Nexus was not running. `once`: each runs once, "
        "late, and a reminder says so. `skip`: it is skipped and logged.",
    )
    zone: str = _setting(
        "",
        "Time zone of reminders, such as `Europe/Berlin`. Empty: this machine's.",
    )


@dataclass(frozen=True, kw_only=True)
class FollowupsConfig:
    """Promises that are recognized in conversations, and raised before they are due."""

    enabled: bool = _setting(True, "Whether promises are recognized and raised.")
    most_a_day: int = _setting(3, "The most messages a day that raise follow-ups.", least=0)
    quiet_hours: str = _setting(
        "21:00-08:00",
        "When none are raised, in `zone` of `[automations]`. What is due in them is raised before. "
        "Empty: at any time.",
    )


@dataclass(frozen=True, kw_only=True)
class CalendarConfig:
    """A calendar that the agent knows: an account on a CalDAV server, or an iCalendar file (ICS).

    It is read every 15 minutes. Add one with `nexus calendar add`.
    """

    url: str = _setting(
        "",
        "Address of the CalDAV account or calendar, or address or path of an ICS file. An address that is a "
        "secret is named as `env:NAME`.",
        held=True,
    )
    kind: Literal["caldav", "ics"] = _setting("caldav", "`caldav`: a server. `ics`: a file, only read.")
    user: str = _setting("", "caldav: login name.")
    password: str = _setting(
        "",
        "caldav: where the password is, such as `env:NAME`. Many providers want an app password.",
        secret=True,
    )
    contacts: bool = _setting(True, "caldav: whether to read the account's contacts (CardDAV) as well.")


@dataclass(frozen=True, kw_only=True)
class BriefConfig:
    """The daily brief, which `nexus automations enable daily-brief` turns on."""

    at: str = _setting("08:00", "When it is sent, in `zone` of `[automations]`.")
    channel: str = _setting("", "The channel to send it to. Empty: the terminal and the browser.")
    thread: str = _setting("", "The conversation there, as the channel calls it. Empty: `main`.")


@dataclass(frozen=True, kw_only=True)
class GatewayConfig:
    """The HTTP API, the dashboard and the MCP server, which `nexus up` serves."""

    host: str = _setting(
        "127.0.0.1",
        "Listen address. Anything but loopback exposes Nexus to the network.",
        held=True,
    )
    port: int = _setting(0, "Port. 0: 7807, or a free one.")
    hosts: tuple[str, ...] = _setting(
        (),
        (
            "Additional host names, such as `nexus.lan:7807`; the port is optional if it is 80 "
            "or 443. Other names are refused."
        ),
        held=True,
    )
    public_url: str = _setting(
        "",
        (
            "Public URL of a TLS proxy, such as `https://nexus.example`, used for login links, "
            "secure cookies and the `Origin` check. Empty: none."
        ),
        held=True,
    )
    mcp_oauth: bool = _setting(
        False,
        (
            "Whether MCP clients that come by `public_url` sign in with OAuth, and you let each in. The "
            "home's token then doesn't open `/mcp` there."
        ),
        held=True,
    )
    max_body_bytes: int = _setting(33_554_432, "Maximum size of a request body.", least=1)
    body_timeout_ms: int = _setting(30_000, "Timeout for receiving a request body.", least=1)
    max_upload_bytes: int = _setting(4_294_967_296, "Maximum size of an export uploaded for import.", least=1)
    rate_per_s: int = _setting(
        200, "Maximum requests per second; bursts may be five times as large.", least=1
    )
    otlp_url: str = _setting(
        "",
        (
            "OTLP/HTTP endpoint for traces, such as `http://localhost:4318/v1/traces`. Needs the "
            "`otel` extra. Empty: off."
        ),
        held=True,
    )


def _providers() -> dict[str, ProviderConfig]:
    return {
        "anthropic": ProviderConfig(kind="anthropic", api_key="env:ANTHROPIC_API_KEY"),
        "openai": ProviderConfig(api_key="env:OPENAI_API_KEY"),
        "google": ProviderConfig(kind="google", api_key="env:GOOGLE_API_KEY"),
        "mistral": ProviderConfig(kind="mistral", api_key="env:MISTRAL_API_KEY"),
        "groq": ProviderConfig(kind="groq", api_key="env:GROQ_API_KEY"),
        "openrouter": ProviderConfig(kind="openrouter", api_key="env:OPENROUTER_API_KEY"),
        "azure": ProviderConfig(kind="azure", api_key="env:AZURE_OPENAI_API_KEY"),
        "bedrock": ProviderConfig(kind="bedrock"),
        # No such host: what is sent there goes to the server that is started for it.
        "builtin": ProviderConfig(kind="builtin", base_url="http://builtin.localhost/v1"),
        "ollama": ProviderConfig(base_url="http://localhost:11434/v1"),
        "lmstudio": ProviderConfig(base_url="http://localhost:1234/v1"),
        "llamacpp": ProviderConfig(base_url="http://localhost:8080/v1"),
        "vllm": ProviderConfig(base_url="http://localhost:8000/v1"),
    }


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of one home, those that most people change first."""

    models: ModelsConfig = ModelsConfig()
    providers: dict[str, ProviderConfig] = field(default_factory=_providers)
    prices: dict[str, PriceConfig] = field(default_factory=dict[str, PriceConfig])
    agents: AgentsConfig = AgentsConfig()
    budgets: BudgetsConfig = BudgetsConfig()
    tools: ToolsConfig = ToolsConfig()
    web: WebConfig = WebConfig()
    attachments: AttachmentsConfig = AttachmentsConfig()
    voice: VoiceConfig = VoiceConfig()
    mcp: dict[str, McpConfig] = field(default_factory=dict[str, McpConfig])
    python_tools: dict[str, PythonToolConfig] = field(default_factory=dict[str, PythonToolConfig])
    channels: dict[str, ChannelConfig] = field(default_factory=dict[str, ChannelConfig])
    automations: AutomationsConfig = AutomationsConfig()
    followups: FollowupsConfig = FollowupsConfig()
    calendar: dict[str, CalendarConfig] = field(default_factory=dict[str, CalendarConfig])
    brief: BriefConfig = BriefConfig()
    memory: MemoryConfig = MemoryConfig()
    gateway: GatewayConfig = GatewayConfig()
    ledgers: LedgersConfig = LedgersConfig()
    engine: EngineConfig = EngineConfig()


def load(path: Path, environ: Mapping[str, str] = os.environ) -> Config:
    """Load the configuration of a home: its file if there is one, then the environment."""
    return parse(text(path), path, environ)


def parse(text: str, path: Path, environ: Mapping[str, str] = os.environ) -> Config:
    """Parse the configuration from the text of a file at that path."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _invalid_toml_error(path, error) from error
    sections = {f.name: f for f in fields(Config)}
    reading.refuse_unknown(tables, sections, f"section in {path}")
    built: dict[str, Any] = {}
    for name, (kind, named) in _section_types().items():
        table = _table(tables, name, f"{path}: [{name}]")
        if named:
            built[name] = _read_named(name, kind, table, path, environ)
        else:
            built[name] = kind(**reading.read(name, kind, table, str(path), environ))
    return Config(**built)


def find_held(tables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Find the settings of a file that run, send or open something, by section.

    Of a section with tables, such as [mcp.NAME], a table with one such setting is held as a whole.
    """
    found: dict[str, dict[str, Any]] = {}
    for section, (kind, named) in _section_types().items():
        marked = {f.name for f in fields(kind) if f.metadata["held"]}
        given: Any = tables.get(section)
        if not isinstance(given, dict):
            continue
        table = cast("dict[str, Any]", given)
        waiting = {
            key: value
            for key, value in table.items()
            if (_has_key_of(marked, value) if named else key in marked)
        }
        if waiting:
            found[section] = waiting
    return found


def _has_key_of(keys: set[str], table: object) -> bool:
    return isinstance(table, dict) and not keys.isdisjoint(cast("dict[str, Any]", table))


def settings() -> Iterator[tuple[str, str, list[Setting]]]:
    """Yield every section: its name, what it is about, its settings."""
    for name, (kind, named) in _section_types().items():
        section = f"{name}.NAME" if named else name
        yield section, kind.__doc__ or "", reading.describe_section(section, kind)


@cache
def template() -> str:
    """Return the config.toml of a new home: every setting at its default, commented out."""
    lines = [
        "# Nexus settings. Lines that start with `#` show defaults; remove the `#` to change one.",
        "# Environment variables override this file: NEXUS_<SECTION>_<KEY>.",
    ]
    for section, about, entries in settings():
        lines += ["", *_comment_lines(about)]
        lines += [f"# [{section}]" if section.endswith(".NAME") else f"[{section}]"]
        for entry in entries:
            lines += _comment_lines(entry.doc)
            lines += [f"# {entry.key} = {reading.toml(entry.default)}"]
    return "\n".join(lines) + "\n"


def _section_types() -> dict[str, tuple[type[Any], bool]]:
    """Return the class of each section, and whether it holds tables that the owner names."""
    kinds: dict[str, tuple[type[Any], bool]] = {}
    for f in fields(Config):
        named = get_origin(f.type) is dict
        kinds[f.name] = (get_args(f.type)[1] if named else cast("type[Any]", f.type), named)
    return kinds


def _read_named(
    section: str, kind: type[Any], tables: dict[str, Any], path: Path, environ: Mapping[str, str]
) -> dict[str, Any]:
    built: dict[str, Any] = dict(getattr(Config(), section))
    for name in [*tables, *sorted(reading.names_in(section, kind, environ) - tables.keys())]:
        table = _table(tables, name, f"{path}: [{section}.{name}]")
        values = reading.read(f"{section}.{name}", kind, table, str(path), environ)
        built[name] = replace(built.get(name, kind()), **values)
    return built


def _table(tables: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{where} must be a section, not a value")
    return cast("dict[str, Any]", table)


def text(path: Path) -> str:
    """Read the file's text; empty if there is no file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise _invalid_toml_error(path, error) from error
    except OSError as error:
        raise ConfigError(f"Can't read {path}: {error.strerror}", hint="Run `nexus doctor --fix`.") from error


def _invalid_toml_error(path: Path, error: ValueError) -> ConfigError:
    return ConfigError(
        f"{path} is not valid TOML: {error}", hint="Fix that line, or delete the file to use the defaults."
    )


def _comment_lines(text: str) -> list[str]:
    plain = join_lines(text)
    return [f"# {line}" for line in textwrap.wrap(plain, 98, break_long_words=False, break_on_hyphens=False)]
