CREATE TABLE alias_keys (
  key       TEXT NOT NULL,
  alias_id  TEXT NOT NULL REFERENCES entity_aliases (id),
  PRIMARY KEY (key, alias_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX alias_keys_alias ON alias_keys (alias_id);

CREATE VIEW entity_roots AS
WITH RECURSIVE up (id, root_id, next) AS (
  SELECT entities.id, above.id, above.merged_into FROM entities JOIN entities AS above ON above.id = entities.merged_into
  WHERE entities.merged_into IS NOT NULL
  UNION
  SELECT up.id, above.id, above.merged_into FROM up JOIN entities AS above ON above.id = up.next
)
SELECT id, root_id FROM up WHERE next IS NULL
UNION ALL
SELECT id, id AS root_id FROM entities WHERE merged_into IS NULL;
