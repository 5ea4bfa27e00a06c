"""Every table of every ledger, and what forgetting does to it. A table without an entry fails a test."""

from typing import Final

from nexus.ledgers.forgetting.rules import Ref, Table, Text, Then, Time, refs_by_type

_HAS_EVENT = "source_event_id IN (SELECT id FROM events.events)"
_HAS_EVENTS = "EXISTS (SELECT 1 FROM memory.episode_events WHERE episode_id = episodes.id)"
_HAS_FACTS = "EXISTS (SELECT 1 FROM memory.observation_facts WHERE observation_id = analysis_runs.id)"
_HAS_SOURCES = "EXISTS (SELECT 1 FROM memory.mental_model_sources WHERE model_id = mental_models.id)"
_RESTS_ON_FACTS = "EXISTS (SELECT 1 FROM memory.owner_profile_facts WHERE profile_id = owner_profiles.id)"
_HAS_REQUEST = "request_id IN (SELECT id FROM runtime.requests)"
_MEMORIES = {
    "event": "events",
    "fact": "facts",
    "observation": "analysis_runs",
    "mental_model": "mental_models",
    "episode": "episodes",
    "entity": "entities",
}

# The events ledger.
_EVENTS: Final = (
    Table("events", "schema_migrations", kept="versions of the schema: no content"),
    Table(
        "events",
        "threads",
        refs=(Ref("parent_thread_id", "threads"),),
        texts=(
            Text("title", Then.CLEAR),
            Text("external_id", Then.CLEAR),
            Text("metadata_json", Then.CLEAR, blank="{}"),
        ),
    ),
    Table(
        "events",
        "events",
        refs=(
            Ref("thread_id", "threads"),
            Ref("request_id", "requests"),
            Ref("reply_to_event_id", "events", Then.CLEAR),
        ),
        index="events_fts",
        indexed=("sender", "content"),
        texts=(Text("external_id"), Text("metadata_json")),
        time=Time("occurred_at"),
    ),
    Table(
        "events",
        "event_participants",
        key=("event_id", "role", "identifier"),
        refs=(Ref("event_id", "events"), Ref("contact_id", "contacts"), Ref("entity_id", "entities")),
        # A participant who is known to be somebody else may bear the same name.
        texts=(
            Text("identifier", when="entity_id IS NULL"),
            Text("display_name", when="entity_id IS NULL"),
        ),
    ),
    Table(
        "events",
        "attachments",
        refs=(Ref("event_id", "events"),),
        texts=(Text("filename"), Text("path")),
    ),
    Table(
        "events",
        "imports",
        texts=(
            Text("location", Then.CLEAR, blank=""),
            Text("fingerprint", Then.CLEAR, blank=""),
            Text("options_json", Then.CLEAR, blank="{}"),
            Text("set_aside_json", Then.CLEAR, blank="{}"),
            Text("cursor", Then.CLEAR),
        ),
    ),
    Table("events", "import_ranges", key=("import_id", "first_seq"), refs=(Ref("import_id", "imports"),)),
    Table(
        "events",
        "bus_events",
        key=("seq",),
        refs=refs_by_type(
            "subject_id",
            "subject_type",
            thread="threads",
            event="events",
            entity="entities",
            fact="facts",
            episode="episodes",
            observation="analysis_runs",
            mental_model="mental_models",
            session="agent_sessions",
            request="requests",
        ),
        texts=(Text("payload_json"),),
        time=Time("created_at"),
    ),
)

# The identity ledger.
_IDENTITY: Final = (
    Table("identity", "schema_migrations", kept="versions of the schema: no content"),
    Table(
        "identity",
        "entities",
        refs=(Ref("merged_into", "entities"), Ref("source_event_id", "events", Then.CLEAR)),
        texts=(
            Text("canonical_name", Then.TELL),
            Text("normalized_name", Then.TELL),
            Text("summary", Then.CLEAR),
            Text("metadata_json", Then.CLEAR, blank="{}"),
        ),
    ),
    Table(
        "identity",
        "entity_aliases",
        refs=(Ref("entity_id", "entities"), Ref("source_event_id", "events")),
        texts=(Text("alias", Then.TELL), Text("normalized", Then.TELL)),
    ),
    Table("identity", "alias_keys", key=("key", "alias_id"), refs=(Ref("alias_id", "entity_aliases"),)),
    Table(
        "identity",
        "persons",
        refs=(Ref("entity_id", "entities"),),
        texts=(Text("display_name", Then.TELL),),
    ),
    Table(
        "identity",
        "contacts",
        refs=(Ref("entity_id", "entities"),),
        texts=(Text("display_name", Then.CLEAR),),
    ),
    Table(
        "identity",
        "contact_identifiers",
        key=("channel", "normalized"),
        refs=(Ref("contact_id", "contacts"),),
        texts=(Text("identifier", Then.TELL),),
    ),
    Table(
        "identity",
        "person_contact_links",
        key=("person_id", "contact_id"),
        refs=(Ref("person_id", "persons"), Ref("contact_id", "contacts")),
    ),
    Table(
        "identity",
        "grants",
        key=("entity_id",),
        refs=(Ref("entity_id", "entities"),),
        texts=(
            Text("tools_json", Then.TELL),
            Text("directories_json", Then.TELL),
            Text("sessions_json", Then.TELL),
            Text("memory", Then.TELL),
            Text("granted_by", Then.TELL),
        ),
    ),
    Table("identity", "pairings", key=("code",), refs=(Ref("contact_id", "contacts"),)),
    Table(
        "identity",
        "person_facts",
        refs=(Ref("person_id", "persons"), Ref("source_event_id", "events")),
        texts=(Text("value"),),
        time=Time("created_at", unless=_HAS_EVENT),
    ),
    Table(
        "identity",
        "merge_candidates",
        refs=(Ref("entity_a_id", "entities"), Ref("entity_b_id", "entities")),
        texts=(Text("reasons_json"), Text("resolved_by", Then.CLEAR)),
        time=Time("created_at"),
    ),
    Table(
        "identity",
        "entity_merge_events",
        refs=(
            Ref("source_entity_id", "entities"),
            Ref("target_entity_id", "entities"),
            Ref("candidate_id", "merge_candidates", Then.CLEAR),
            Ref("undoes_id", "entity_merge_events", Then.CLEAR),
        ),
        texts=(Text("reason"), Text("before_json"), Text("actor", Then.TELL)),
    ),
)

# The memory ledger: what was learned goes with what it was learned from.
_MEMORY: Final = (
    Table("memory", "schema_migrations", kept="versions of the schema: no content"),
    Table("memory", "episode_definitions", kept="settings of the program"),
    Table("memory", "analysis_types", kept="settings of the program"),
    # Before what it numbers: whose rows go first, and with their texts take the words out of the index.
    Table(
        "memory",
        "summaries",
        refs=tuple(
            Ref("id", table, when=f"id IN (SELECT id FROM {table})")  # noqa: S608 - names are constants of the program, values are bound
            for table in ("episodes", "analysis_runs", "mental_models")
        ),
        index="summaries_fts",
    ),
    Table(
        "memory",
        "episodes",
        refs=(
            Ref("thread_id", "threads"),
            Ref("previous_version_id", "episodes"),
            Ref("source_request_id", "requests", Then.CLEAR),
        ),
        texts=(Text("title"), Text("summary"), Text("metadata_json")),
        time=Time(
            "start_time",
            "end_time",
            unless=_HAS_EVENTS,
        ),
    ),
    Table(
        "memory",
        "episode_events",
        key=("episode_id", "event_id"),
        refs=(Ref("episode_id", "episodes"), Ref("event_id", "events", Then.OWNER)),
        owner="episode_id",
    ),
    Table(
        "memory",
        "episode_entity_mentions",
        key=("episode_id", "entity_id"),
        refs=(Ref("episode_id", "episodes"), Ref("entity_id", "entities", Then.NAMED)),
        owner="episode_id",
    ),
    Table(
        "memory",
        "facts",
        refs=(
            Ref("source_entity_id", "entities"),
            Ref("target_entity_id", "entities"),
            Ref("source_event_id", "events"),
            Ref("source_episode_id", "episodes", unless=_HAS_EVENT),
            Ref("source_request_id", "requests", unless=f"{_HAS_EVENT} OR source_episode_id IS NOT NULL"),
        ),
        index="facts_fts",
        indexed=("fact",),
        texts=(Text("relation_type"), Text("metadata_json")),
        time=Time(
            "created_at",
            unless=f"{_HAS_EVENT} OR source_episode_id IS NOT NULL",
        ),
    ),
    Table("memory", "fact_seals", kept="digests, which are made again behind the first fact that goes"),
    Table("memory", "fact_reseals", kept="counts and ids of forgets: no content"),
    Table(
        "memory",
        "fact_entities",
        key=("fact_id", "entity_id"),
        refs=(Ref("fact_id", "facts"), Ref("entity_id", "entities", Then.NAMED)),
        owner="fact_id",
    ),
    Table(
        "memory",
        "episode_relationship_mentions",
        key=("episode_id", "relationship_id"),
        refs=(Ref("episode_id", "episodes"), Ref("relationship_id", "facts")),
        texts=(Text("extracted_fact"),),
    ),
    Table(
        "memory",
        "causal_links",
        refs=(
            Ref("cause_fact_id", "facts"),
            Ref("effect_fact_id", "facts"),
            Ref("source_episode_id", "episodes", Then.CLEAR),
        ),
    ),
    Table(
        "memory",
        "fact_successions",
        key=("old_fact_id",),
        refs=(Ref("old_fact_id", "facts"), Ref("new_fact_id", "facts")),
    ),
    Table("memory", "succession_progress", kept="a position in the log: no content"),
    Table(
        "memory",
        "fact_reviews",
        key=("seq",),
        refs=(Ref("fact_id", "facts"),),
        texts=(Text("reason", Then.CLEAR), Text("actor", Then.TELL)),
    ),
    Table(
        "memory",
        "follow_ups",
        refs=(
            Ref("event_id", "events"),
            Ref("reply_thread_id", "threads", Then.CLEAR),
            Ref("source_request_id", "requests", Then.CLEAR),
            Ref("promiser_entity_id", "entities"),
            Ref("recipient_entity_id", "entities"),
            Ref("closed_by_event_id", "events", Then.CLEAR),
            Ref("raised_by", "invocations", Then.CLEAR),
        ),
        texts=(Text("promise"), Text("promiser_name"), Text("recipient_name")),
        time=Time("created_at", unless="event_id IN (SELECT id FROM events.events)"),
    ),
    Table(
        "memory",
        "analysis_runs",
        refs=(
            Ref("subject_entity_id", "entities"),
            Ref("previous_version_id", "analysis_runs"),
            Ref("source_request_id", "requests", unless=_HAS_FACTS),
        ),
        texts=(Text("content"), Text("metadata_json"), Text("stale_reason", Then.CLEAR)),
        time=Time("created_at", unless=_HAS_FACTS),
    ),
    Table(
        "memory",
        "observation_facts",
        key=("observation_id", "fact_id"),
        refs=(Ref("observation_id", "analysis_runs"), Ref("fact_id", "facts", Then.OWNER)),
        owner="observation_id",
    ),
    Table(
        "memory",
        "mental_models",
        refs=(
            Ref("subject_entity_id", "entities"),
            Ref("previous_version_id", "mental_models"),
            Ref("source_request_id", "requests", unless=_HAS_SOURCES),
        ),
        texts=(Text("name"), Text("content"), Text("metadata_json"), Text("stale_reason", Then.CLEAR)),
        time=Time("created_at", unless=_HAS_SOURCES),
    ),
    Table(
        "memory",
        "mental_model_sources",
        key=("model_id", "source_type", "source_id"),
        refs=(
            Ref("model_id", "mental_models"),
            *refs_by_type(
                "source_id",
                "source_type",
                Then.OWNER,
                fact="facts",
                observation="analysis_runs",
                mental_model="mental_models",
            ),
        ),
        owner="model_id",
    ),
    Table(
        "memory",
        "owner_profiles",
        refs=(Ref("source_request_id", "requests", Then.CLEAR),),
        texts=(Text("content"), Text("written")),
        time=Time("created_at", unless=_RESTS_ON_FACTS),
    ),
    Table(
        "memory",
        "owner_profile_facts",
        key=("profile_id", "fact_id", "line"),
        refs=(Ref("profile_id", "owner_profiles"), Ref("fact_id", "facts", Then.OWNER)),
        owner="profile_id",
    ),
    Table(
        "memory",
        "processing_log",
        key=("processor", "target_type", "target_id"),
        refs=(
            *refs_by_type(
                "target_id",
                "target_type",
                event="events",
                fact="facts",
                episode="episodes",
                mental_model="mental_models",
                execution="executions",
                request="requests",
            ),
            Ref("request_id", "requests", Then.CLEAR),
        ),
        texts=(Text("detail", Then.CLEAR),),
    ),
    Table(
        "memory",
        "backfills",
        refs=(Ref("import_id", "imports"),),
        texts=(Text("reason", Then.CLEAR), Text("estimate_json", Then.CLEAR, blank="{}")),
    ),
    Table(
        "memory",
        "backfill_episodes",
        key=("backfill_id", "episode_id"),
        refs=(Ref("backfill_id", "backfills"), Ref("episode_id", "episodes")),
    ),
    Table("memory", "exams", kept="counts, versions and names of models: no content"),
    Table(
        "memory",
        "exam_answers",
        key=("exam_id", "fact_id"),
        refs=(Ref("fact_id", "facts"), Ref("entity_id", "entities", Then.CLEAR)),
    ),
    Table(
        "memory",
        "exam_findings",
        key=("exam_id", "fact_id", "kind"),
        refs=(
            Ref("fact_id", "facts"),
            Ref("other_fact_id", "facts"),
            Ref("entity_id", "entities"),
        ),
        texts=(Text("detail"), Text("fixes_json")),
    ),
    Table(
        "memory",
        "exam_wordings",
        key=("fact_id", "model", "number"),
        refs=(Ref("fact_id", "facts"),),
        texts=(Text("question"),),
    ),
    Table(
        "memory",
        "shown",
        key=("execution_id", "target_type", "target_id"),
        refs=(
            Ref("execution_id", "executions"),
            *refs_by_type(
                "target_id",
                "target_type",
                Then.OWNER,
                fact="facts",
                observation="analysis_runs",
                mental_model="mental_models",
            ),
        ),
        owner="execution_id",
    ),
)

# The agents ledger. A turn goes whole, so that each tool call keeps its answer.
_AGENTS: Final = (
    Table("agents", "schema_migrations", kept="versions of the schema: no content"),
    Table(
        "agents",
        "agent_sessions",
        refs=(Ref("thread_id", "threads"), Ref("parent_session_id", "agent_sessions")),
        texts=(
            Text("label"),
            Text("project", Then.CLEAR),
            Text("title", Then.CLEAR),
            Text("metadata_json", Then.CLEAR, blank="{}"),
        ),
    ),
    Table(
        "agents",
        "agent_turns",
        refs=(
            Ref("session_id", "agent_sessions"),
            Ref("request_id", "requests"),
            Ref("execution_id", "executions"),
        ),
        texts=(Text("error"),),
        time=Time("started_at", "ended_at", unless=_HAS_REQUEST),
    ),
    Table(
        "agents",
        "agent_messages",
        refs=(
            Ref("session_id", "agent_sessions", implied=True),
            Ref("turn_id", "agent_turns"),
            Ref("event_id", "events", Then.OWNER),
        ),
        texts=(Text("content", Then.OWNER), Text("parts_json", Then.OWNER)),
        owner="turn_id",
    ),
    Table(
        "agents",
        "agent_tool_calls",
        refs=(
            Ref("session_id", "agent_sessions", implied=True),
            Ref("turn_id", "agent_turns"),
            Ref("message_id", "agent_messages", implied=True),
        ),
        texts=(
            Text("arguments_json", Then.OWNER),
            Text("result", Then.OWNER),
            Text("error", Then.OWNER),
        ),
        owner="turn_id",
    ),
)

# The embeddings ledger.
_EMBEDDINGS: Final = (
    Table("embeddings", "schema_migrations", kept="versions of the schema: no content"),
    Table("embeddings", "embedding_models", kept="names of models: no content"),
    Table("embeddings", "embedding_progress", kept="how far each model has come: no content"),
    Table(
        "embeddings",
        "embeddings",
        key=("seq",),
        refs=refs_by_type(
            "target_id",
            "target_type",
            event="events",
            fact="facts",
            relationship="facts",
            episode="episodes",
            entity="entities",
            observation="analysis_runs",
            mental_model="mental_models",
        ),
    ),
)

# The runtime ledger: the work on what goes, goes; what it cost stays.
_RUNTIME: Final = (
    Table("runtime", "schema_migrations", kept="versions of the schema: no content"),
    Table(
        "runtime",
        "automations",
        refs=(
            Ref("created_by_thread", "threads", Then.CLEAR),
            Ref("created_by_session", "agent_sessions", Then.CLEAR),
        ),
        texts=(
            Text("name", Then.TELL),
            Text("description", Then.TELL),
            Text("triggers_json", Then.TELL),
            Text("config_json", Then.TELL),
            Text("last_error", Then.CLEAR),
            Text("disabled_reason", Then.CLEAR),
        ),
    ),
    Table(
        "runtime",
        "requests",
        refs=(
            Ref("parent_request_id", "requests"),
            Ref("root_request_id", "requests"),
            Ref("event_id", "events"),
            Ref("thread_id", "threads"),
            Ref("principal_id", "entities"),
        ),
        texts=(
            Text("session_label"),
            Text("enrichment_json", Then.CLEAR),
            Text("error", Then.CLEAR),
            Text("access_json", Then.CLEAR, blank="{}"),
        ),
        time=Time("created_at", unless="event_id IN (SELECT id FROM events.events)"),
    ),
    Table(
        "runtime",
        "executions",
        refs=(
            Ref("request_id", "requests"),
            Ref("root_request_id", "requests"),
            Ref("taken_by", "executions", Then.CLEAR),
        ),
        texts=(
            Text("session_label"),
            Text("input_json", Then.CLEAR, blank="null"),
            Text("result_json", Then.CLEAR),
            Text("error", Then.CLEAR),
            Text("waiting_for", Then.CLEAR),
        ),
    ),
    Table(
        "runtime",
        "steps",
        key=("execution_id", "name", "number"),
        refs=(Ref("execution_id", "executions"),),
        texts=(Text("name"), Text("outcome")),
    ),
    Table(
        "runtime",
        "dispatches",
        refs=(
            Ref("parent_request_id", "requests"),
            Ref("root_request_id", "requests"),
            Ref("worker_request_id", "requests"),
            Ref("parent_execution_id", "executions"),
            Ref("execution_id", "executions"),
            # Without the run that got the result, nobody could tell any more that it was delivered.
            Ref("delivered_to", "executions"),
        ),
        texts=(
            Text("parent_session_label"),
            Text("worker_session_label"),
            Text("task", Then.CLEAR, blank=""),
        ),
    ),
    Table(
        "runtime",
        "invocations",
        refs=(Ref("request_id", "requests"), Ref("root_request_id", "requests")),
        texts=(
            Text("result_json", Then.CLEAR),
            Text("error", Then.CLEAR),
            Text("input_json", Then.CLEAR),
            Text("output", Then.CLEAR),
        ),
        time=Time("created_at", unless=_HAS_REQUEST),
    ),
    Table(
        "runtime",
        "injections",
        refs=(
            Ref("request_id", "requests"),
            Ref("root_request_id", "requests"),
            Ref("execution_id", "executions", Then.CLEAR),
            Ref("invocation_id", "invocations", implied=True),
            # Its words stand wherever it was told: in the work on the task, or in the run that chose.
            *refs_by_type(
                "item_id", "item_kind", Then.OWNER, when="injected", owner="request_id", **_MEMORIES
            ),
            *refs_by_type(
                "item_id", "item_kind", Then.OWNER, when="NOT injected", owner="execution_id", **_MEMORIES
            ),
        ),
        texts=(Text("why", Then.CLEAR, blank=""),),
        time=Time("created_at", unless=_HAS_REQUEST),
    ),
    Table("runtime", "usage", kept="tokens and money: no content, and the bill stays right"),
    Table("runtime", "usage_days", kept="sums of usage, which stays"),
    Table("runtime", "usage_roots", kept="sums of usage, which stays"),
    Table("runtime", "budget_hits", kept="which budget was used up, and by how much: no content"),
    Table("runtime", "reservations", kept="what requests under way may cost: no content, and gone with them"),
    Table("runtime", "push_subscriptions", kept="addresses and keys of the owner's browsers: no content"),
    Table("runtime", "push_sent", kept="ids of what browsers were notified of: no content"),
    Table(
        "runtime",
        "approvals",
        refs=(
            Ref("request_id", "requests"),
            Ref("root_request_id", "requests"),
            Ref("execution_id", "executions"),
        ),
        texts=(
            Text("session_label"),
            Text("tool"),
            Text("arguments_json", Then.CLEAR, blank="{}"),
            Text("pattern", Then.CLEAR),
            Text("reason", Then.CLEAR, blank=""),
            Text("tainted_by", Then.CLEAR, blank=""),
            Text("preview", Then.CLEAR, blank=""),
        ),
    ),
    Table("runtime", "models", kept="what models can do: no content"),
    Table(
        "runtime",
        "channels",
        key=("name",),
        texts=(Text("reason", Then.CLEAR), Text("cursor_json", Then.TELL)),
    ),
    Table(
        "runtime",
        "deliveries",
        key=("event_id",),
        refs=(Ref("event_id", "events"), Ref("thread_id", "threads")),
        texts=(Text("external_id", Then.CLEAR), Text("error", Then.CLEAR)),
    ),
    # Nothing of it was taken in, so nothing but its own words says whom it is about.
    Table(
        "runtime",
        "set_aside",
        texts=(Text("external_id"), Text("sender"), Text("body_json"), Text("reason", Then.CLEAR, blank="")),
        time=Time("created_at"),
    ),
    Table(
        "runtime",
        "spans",
        refs=(
            Ref("request_id", "requests"),
            Ref("root_request_id", "requests"),
            Ref("parent_span_id", "spans", implied=True),
            Ref("execution_id", "executions", implied=True),
        ),
        texts=(Text("name"), Text("attributes_json", Then.CLEAR, blank="{}")),
        time=Time("started_at", unless=_HAS_REQUEST),
    ),
    Table("runtime", "forgets", kept="the record of what was forgotten: ids and counts"),
    Table("runtime", "forget_items", kept="empty but for a forget under way"),
)

TABLES: Final = (
    *_EVENTS,
    *_IDENTITY,
    *_MEMORY,
    *_AGENTS,
    *_EMBEDDINGS,
    *_RUNTIME,
)
# Those that it touches have names of their own across ledgers.
TOUCHED: Final = {table.name: table for table in TABLES if not table.kept}
# What others refer to by key: the plan records these keys. The other rows are found by what they refer to.
RECORDED: Final = frozenset(ref.table for table in TABLES for ref in table.refs if not ref.implied)


def of(ledger: str) -> list[Table]:
    """Return the tables of a ledger that forgetting touches, in the order of its schema."""
    return [table for table in TOUCHED.values() if table.ledger == ledger]
