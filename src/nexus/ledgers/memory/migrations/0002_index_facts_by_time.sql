-- What recall asks a large ledger for: facts of a time, and the newest facts of an entity.
CREATE INDEX facts_time ON facts (coalesce(as_of, valid_at));
CREATE INDEX facts_source_time ON facts (source_entity_id, created_at) WHERE source_entity_id IS NOT NULL;
