"""What forgetting does to the identity ledger."""

from nexus.ledgers.forgetting.rules import Ref, Table, Text, Then, Time

_HAS_EVENT = "source_event_id IN (SELECT id FROM events.events)"

TABLES = (
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
