"""What forgetting does to the embeddings ledger."""

from nexus.ledgers.forgetting.rules import Table, typed

TABLES = (
    Table("embeddings", "schema_migrations", kept="versions of the schema: no content"),
    Table("embeddings", "embedding_models", kept="names of models: no content"),
    Table("embeddings", "embedding_progress", kept="how far each model has come: no content"),
    Table(
        "embeddings",
        "embeddings",
        key=("seq",),
        refs=typed(
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
