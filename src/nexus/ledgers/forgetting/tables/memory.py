"""What forgetting does to the memory ledger: what was learned goes with what it was learned from."""

from nexus.ledgers.forgetting.rules import Ref, Table, Text, Then, Time, typed

_HAS_EVENT = "source_event_id IN (SELECT id FROM events.events)"
_HAS_EVENTS = "EXISTS (SELECT 1 FROM memory.episode_events WHERE episode_id = episodes.id)"
_HAS_FACTS = "EXISTS (SELECT 1 FROM memory.observation_facts WHERE observation_id = analysis_runs.id)"
_HAS_SOURCES = "EXISTS (SELECT 1 FROM memory.mental_model_sources WHERE model_id = mental_models.id)"
_RESTS_ON_FACTS = "EXISTS (SELECT 1 FROM memory.owner_profile_facts WHERE profile_id = owner_profiles.id)"

TABLES = (
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
            *typed(
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
            *typed(
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
    Table(
        "memory",
        "shown",
        key=("execution_id", "target_type", "target_id"),
        refs=(
            Ref("execution_id", "executions"),
            *typed(
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
