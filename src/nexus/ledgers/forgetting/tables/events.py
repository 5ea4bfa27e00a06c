"""What forgetting does to the events ledger."""

from nexus.ledgers.forgetting.rules import Ref, Table, Text, Then, Time, typed

TABLES = (
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
        refs=typed(
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
