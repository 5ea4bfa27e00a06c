-- Entities are listed by when they last changed.
CREATE INDEX entities_updated ON entities (updated_at, id) WHERE merged_into IS NULL;
