-- memory.db: everything learned: facts, episodes, observations and mental models.
-- Facts are never changed, and only `nexus forget` deletes them.

CREATE TABLE schema_migrations (
  -- Migrations applied to this file, each committed together with its row.
  version     INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  applied_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE summaries (
  -- Row numbers of episodes, observations and mental models in the full-text index.
  seq  INTEGER PRIMARY KEY AUTOINCREMENT,
  id   TEXT NOT NULL UNIQUE   -- episodes, analysis_runs or mental_models
) STRICT;

CREATE TABLE episode_definitions (
  -- Strategies for grouping events into episodes, with their settings.
  id           TEXT PRIMARY KEY,   -- def_…
  name         TEXT NOT NULL UNIQUE,
  strategy     TEXT NOT NULL,
  config_json  TEXT NOT NULL DEFAULT '{}',
  created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE episodes (
  -- Stretches of conversation with a start and an end. A new version links to the previous one.
  id                   TEXT PRIMARY KEY,   -- epi_…
  definition_id        TEXT REFERENCES episode_definitions (id),
  channel              TEXT NOT NULL,
  thread_id            TEXT,               -- events.threads
  title                TEXT,
  summary              TEXT,
  start_time           TEXT NOT NULL,
  end_time             TEXT NOT NULL,
  event_count          INTEGER NOT NULL DEFAULT 0,
  token_count          INTEGER NOT NULL DEFAULT 0,
  version              INTEGER NOT NULL DEFAULT 1,
  previous_version_id  TEXT REFERENCES episodes (id),
  source_request_id    TEXT,               -- runtime.requests: the run that created it
  metadata_json        TEXT NOT NULL DEFAULT '{}',  -- extracted: title and summary are from its own words
  created_at           TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX episodes_end ON episodes (end_time);
CREATE INDEX episodes_thread ON episodes (thread_id, end_time);
CREATE INDEX episodes_previous ON episodes (previous_version_id) WHERE previous_version_id IS NOT NULL;

CREATE TABLE episode_events (
  -- Events of each episode.
  episode_id  TEXT NOT NULL REFERENCES episodes (id),
  event_id    TEXT NOT NULL,      -- events.events
  position    INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (episode_id, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX episode_events_event ON episode_events (event_id);

CREATE TABLE episode_entity_mentions (
  -- Entities mentioned in each episode, with counts.
  episode_id     TEXT NOT NULL REFERENCES episodes (id),
  entity_id      TEXT NOT NULL,   -- identity.entities
  mention_count  INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (episode_id, entity_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX episode_entity_mentions_entity ON episode_entity_mentions (entity_id);

CREATE TABLE facts (
  -- The observation log: every statement learned, in order. Append-only.
  seq                INTEGER PRIMARY KEY AUTOINCREMENT,  -- recording order; never reused
  id                 TEXT NOT NULL UNIQUE,               -- fact_…
  source_entity_id   TEXT,                               -- identity.entities: the subject
  relation_type      TEXT,                               -- WORKS_AT, LIKES, BIRTHDAY, …; any text
  target_entity_id   TEXT,                               -- identity.entities: the object, if it is an entity
  fact               TEXT NOT NULL,                      -- the statement, as a sentence
  confidence         REAL NOT NULL DEFAULT 1.0 CHECK (confidence BETWEEN 0.0 AND 1.0),
  source_type        TEXT NOT NULL DEFAULT 'mentioned',  -- self_disclosed, mentioned, observed, inferred
  as_of              TEXT,                               -- when it was true, if stated
  valid_at           TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  source_event_id    TEXT,                               -- events.events: the message it came from
  source_episode_id  TEXT REFERENCES episodes (id),
  source_request_id  TEXT,                               -- runtime.requests: the run that wrote it
  metadata_json      TEXT NOT NULL DEFAULT '{}',
  created_at         TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX facts_source ON facts (source_entity_id, relation_type, created_at);
CREATE INDEX facts_target ON facts (target_entity_id, created_at) WHERE target_entity_id IS NOT NULL;
CREATE INDEX facts_event ON facts (source_event_id) WHERE source_event_id IS NOT NULL;
CREATE INDEX facts_episode ON facts (source_episode_id) WHERE source_episode_id IS NOT NULL;
CREATE INDEX facts_created ON facts (created_at);
CREATE INDEX facts_time ON facts (coalesce(as_of, valid_at));
CREATE INDEX facts_source_time ON facts (source_entity_id, created_at) WHERE source_entity_id IS NOT NULL;

CREATE TRIGGER facts_are_not_changed BEFORE UPDATE ON facts
BEGIN SELECT RAISE(ABORT, 'facts is append-only: write a new observation instead'); END;

CREATE TRIGGER facts_are_not_deleted BEFORE DELETE ON facts
BEGIN SELECT RAISE(ABORT, 'facts is append-only: use `nexus forget` to remove'); END;

-- INSERT OR REPLACE would delete the old row without firing the trigger above.
CREATE TRIGGER facts_are_not_replaced BEFORE INSERT ON facts
WHEN EXISTS (SELECT 1 FROM facts WHERE id = NEW.id OR seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'facts is append-only: that fact is recorded already'); END;

CREATE TABLE fact_seals (
  -- A hash chain over the facts, to detect facts changed or removed outside Nexus. Append-only.
  seq     INTEGER PRIMARY KEY,   -- facts.seq
  digest  BLOB NOT NULL          -- SHA-256 of the previous digest and the fact
) STRICT;

CREATE TRIGGER fact_seals_are_not_changed BEFORE UPDATE ON fact_seals
BEGIN SELECT RAISE(ABORT, 'fact_seals is append-only'); END;

CREATE TRIGGER fact_seals_are_not_deleted BEFORE DELETE ON fact_seals
BEGIN SELECT RAISE(ABORT, 'fact_seals is append-only: `nexus memory seals --accept` makes them again'); END;

CREATE TRIGGER fact_seals_are_not_replaced BEFORE INSERT ON fact_seals
WHEN EXISTS (SELECT 1 FROM fact_seals WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'fact_seals is append-only: that fact is sealed already'); END;

CREATE TABLE fact_reseals (
  -- Why seals were recomputed: `nexus forget` removed facts, or the owner accepted changed ones.
  id          TEXT PRIMARY KEY,   -- forgets.id, or res_…
  reason      TEXT NOT NULL CHECK (reason IN ('forget', 'accepted')),
  broken      INTEGER NOT NULL,   -- facts that didn't match their seals before
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

-- Source of the full-text index, which stores no copy of the text.
CREATE VIEW facts_text AS SELECT seq, id AS fact_id, fact FROM facts;

CREATE VIRTUAL TABLE facts_fts USING fts5 (
  fact_id UNINDEXED, fact,
  content = 'facts_text', content_rowid = 'seq', tokenize = 'porter unicode61'
);
CREATE VIRTUAL TABLE facts_terms USING fts5vocab (facts_fts, row);

CREATE TRIGGER facts_are_indexed AFTER INSERT ON facts
BEGIN
  INSERT INTO facts_fts (rowid, fact_id, fact) VALUES (NEW.seq, NEW.id, NEW.fact);
END;

CREATE TRIGGER facts_are_unindexed AFTER DELETE ON facts
BEGIN
  INSERT INTO facts_fts (facts_fts, rowid, fact_id, fact) VALUES ('delete', OLD.seq, OLD.id, OLD.fact);
END;

-- Facts in scripts without spaces (Chinese, Japanese, Thai…), indexed by trigrams. The trailing space lets
-- the last two characters start a trigram.
CREATE VIEW facts_unspaced AS
SELECT seq, id AS fact_id, fact || ' ' AS fact FROM facts
WHERE fact GLOB '*[ก-ໟက-႟ក-៹々-ヿ㐀-鿿豈-龎𠀀-𳍐]*';

CREATE VIRTUAL TABLE facts_unspaced_fts USING fts5 (
  fact_id UNINDEXED, fact,
  content = 'facts_unspaced', content_rowid = 'seq', tokenize = 'trigram'
);
CREATE VIRTUAL TABLE facts_unspaced_terms USING fts5vocab (facts_unspaced_fts, row);

CREATE TRIGGER unspaced_facts_are_indexed AFTER INSERT ON facts
BEGIN
  INSERT INTO facts_unspaced_fts (rowid, fact_id, fact)
  SELECT seq, fact_id, fact FROM facts_unspaced WHERE seq = NEW.seq;
END;

CREATE TRIGGER unspaced_facts_are_unindexed BEFORE DELETE ON facts
BEGIN
  INSERT INTO facts_unspaced_fts (facts_unspaced_fts, rowid, fact_id, fact)
  SELECT 'delete', seq, fact_id, fact FROM facts_unspaced WHERE seq = OLD.seq;
END;

-- A new ULID, for rows written with plain `sqlite3`.
CREATE VIEW ulids AS
WITH
  moment (ms) AS (SELECT CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)),
  digits (position, digit) AS (
    SELECT 0, (ms >> 45) & 31 FROM moment
    UNION ALL
    SELECT position + 1,
           CASE WHEN position < 9 THEN (ms >> (40 - 5 * position)) & 31 ELSE random() & 31 END
    FROM digits, moment WHERE position < 25
  )
SELECT group_concat(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', digit + 1, 1), '') AS ulid FROM digits;

-- Facts that connect an entity to another entity or a value. Inserting here adds a fact.
CREATE VIEW relationships AS
SELECT id, source_entity_id, target_entity_id, relation_type, fact, confidence, source_type,
       as_of, valid_at, source_event_id, source_episode_id, source_request_id, metadata_json, created_at
FROM facts
WHERE source_entity_id IS NOT NULL AND relation_type IS NOT NULL;

CREATE TRIGGER relationships_are_facts INSTEAD OF INSERT ON relationships
BEGIN
  SELECT RAISE(ABORT, 'a relationship needs source_entity_id and relation_type')
  WHERE NEW.source_entity_id IS NULL OR NEW.relation_type IS NULL;
  INSERT INTO facts (
    id, source_entity_id, target_entity_id, relation_type, fact, confidence, source_type, as_of,
    valid_at, source_event_id, source_episode_id, source_request_id, metadata_json, created_at)
  SELECT
    COALESCE(NEW.id, 'fact_' || (SELECT ulid FROM ulids)),
    NEW.source_entity_id, NEW.target_entity_id, NEW.relation_type, NEW.fact,
    COALESCE(NEW.confidence, 1.0), COALESCE(NEW.source_type, 'mentioned'), NEW.as_of,
    COALESCE(NEW.valid_at, NEW.created_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    NEW.source_event_id, NEW.source_episode_id, NEW.source_request_id,
    COALESCE(NEW.metadata_json, '{}'),
    COALESCE(NEW.created_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
END;

CREATE TABLE fact_entities (
  -- Other entities that a fact names, besides its subject and object.
  fact_id    TEXT NOT NULL REFERENCES facts (id),
  entity_id  TEXT NOT NULL,   -- identity.entities
  role       TEXT NOT NULL DEFAULT 'mentioned',
  PRIMARY KEY (fact_id, entity_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX fact_entities_entity ON fact_entities (entity_id);

CREATE TABLE episode_relationship_mentions (
  -- Episodes in which a relationship was mentioned.
  episode_id       TEXT NOT NULL REFERENCES episodes (id),
  relationship_id  TEXT NOT NULL REFERENCES facts (id),
  source_type      TEXT,
  extracted_fact   TEXT,     -- as worded in this episode
  confidence       REAL NOT NULL DEFAULT 1.0,
  created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (episode_id, relationship_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX episode_relationship_mentions_relationship ON episode_relationship_mentions (relationship_id);

CREATE TABLE causal_links (
  -- Cause and effect between facts.
  id                 TEXT PRIMARY KEY,   -- cau_…
  cause_fact_id      TEXT NOT NULL REFERENCES facts (id),
  effect_fact_id     TEXT NOT NULL REFERENCES facts (id),
  relation           TEXT NOT NULL DEFAULT 'caused',   -- caused, enabled, prevented, …; replaced; distinct: both are true
  confidence         REAL NOT NULL DEFAULT 1.0,   -- of `replaced`: below 1 it is a model's claim, which the judge weighs
  source_episode_id  TEXT REFERENCES episodes (id),
  created_at         TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  how                TEXT CHECK (how IN ('corrected', 'changed', 'cancelled')),   -- of `replaced`
  CHECK (cause_fact_id <> effect_fact_id)
) STRICT;
CREATE INDEX causal_links_cause ON causal_links (cause_fact_id);
CREATE INDEX causal_links_effect ON causal_links (effect_fact_id);

CREATE TABLE fact_successions (
  -- Which fact replaced which. Derived; `nexus memory successions --rebuild` derives it again.
  old_fact_id  TEXT PRIMARY KEY REFERENCES facts (id),
  new_fact_id  TEXT NOT NULL REFERENCES facts (id),
  confidence   REAL NOT NULL CHECK (confidence BETWEEN 0.0 AND 1.0),
  basis        TEXT NOT NULL CHECK (basis IN ('stated', 'judged')),   -- stated: by a causal link with relation `replaced`
  derived_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  how          TEXT NOT NULL DEFAULT 'changed' CHECK (how IN ('corrected', 'changed', 'cancelled')),   -- never true, was true, called off
  signals      TEXT NOT NULL DEFAULT '[]',   -- JSON: what decided, the strongest first
  CHECK (old_fact_id <> new_fact_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX fact_successions_new ON fact_successions (new_fact_id);

CREATE TABLE succession_progress (
  -- How far the log has been searched for replacements, by judge; and each fact that later ones are weighed against again.
  judge       TEXT PRIMARY KEY,   -- version of the weights and the embedding model, or `again ` and a fact's id
  position    INTEGER NOT NULL,   -- facts.seq
  updated_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT, WITHOUT ROWID;

-- No chain of replacements leads back to where it began: a judged link that would close a circle is left out, and a
-- stated one takes away what replaced its new fact.
CREATE TRIGGER successions_form_no_circles BEFORE INSERT ON fact_successions
WHEN NEW.old_fact_id IN (
  WITH RECURSIVE later (id) AS (
    SELECT NEW.new_fact_id UNION SELECT l.new_fact_id FROM later JOIN fact_successions AS l ON l.old_fact_id = later.id)
  SELECT id FROM later)
BEGIN
  SELECT RAISE(IGNORE) WHERE NEW.basis = 'judged';
  DELETE FROM fact_successions WHERE old_fact_id = NEW.new_fact_id;
END;

CREATE TRIGGER replaced_facts_are_succeeded AFTER INSERT ON causal_links
WHEN NEW.relation = 'replaced' AND NEW.confidence >= 1.0
BEGIN
  INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis, how)
  VALUES (NEW.cause_fact_id, NEW.effect_fact_id, 1.0, 'stated', coalesce(NEW.how, 'changed'))
  ON CONFLICT (old_fact_id) DO UPDATE
  SET new_fact_id = excluded.new_fact_id, confidence = excluded.confidence, basis = excluded.basis,
      how = excluded.how, signals = excluded.signals, derived_at = excluded.derived_at;
END;

CREATE TRIGGER distinct_facts_both_hold AFTER INSERT ON causal_links
WHEN NEW.relation = 'distinct'
BEGIN
  DELETE FROM fact_successions
  WHERE (old_fact_id, new_fact_id) IN (VALUES (NEW.cause_fact_id, NEW.effect_fact_id), (NEW.effect_fact_id, NEW.cause_fact_id));
END;

-- If a fact's successor is forgotten, later facts are searched again for another.
CREATE TRIGGER lost_successions_are_searched_again AFTER DELETE ON fact_successions
BEGIN
  INSERT INTO succession_progress (judge, position)
  SELECT 'again ' || id, seq FROM facts WHERE id = OLD.old_fact_id
  ON CONFLICT (judge) DO UPDATE
  SET position = min(position, excluded.position), updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now');
END;

CREATE TRIGGER forgotten_facts_are_not_searched_for AFTER DELETE ON facts
BEGIN
  DELETE FROM succession_progress WHERE judge = 'again ' || OLD.id;
END;

CREATE TABLE fact_reviews (
  -- What people decided about facts: accepted, rejected or pinned, and taken back. Append-only.
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  fact_id     TEXT NOT NULL REFERENCES facts (id),
  decision    TEXT NOT NULL CHECK (decision IN ('accept', 'reject', 'reopen', 'pin', 'unpin')),
  actor       TEXT NOT NULL,
  reason      TEXT,
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX fact_reviews_fact ON fact_reviews (fact_id, seq);
CREATE INDEX fact_reviews_pins ON fact_reviews (fact_id, seq) WHERE decision = 'pin';

CREATE TRIGGER fact_reviews_are_not_changed BEFORE UPDATE ON fact_reviews
BEGIN SELECT RAISE(ABORT, 'fact_reviews is append-only: record a new decision instead'); END;

CREATE TRIGGER fact_reviews_are_not_deleted BEFORE DELETE ON fact_reviews
BEGIN SELECT RAISE(ABORT, 'fact_reviews is append-only: use `nexus forget` to remove'); END;

-- Whether each fact was accepted or rejected: its newest decision counts.
CREATE VIEW fact_verdicts AS
SELECT fact_id, decision, actor, reason, created_at FROM fact_reviews AS newest
WHERE decision IN ('accept', 'reject') AND NOT EXISTS (
  SELECT 1 FROM fact_reviews AS later
  WHERE later.fact_id = newest.fact_id AND later.seq > newest.seq
    AND later.decision IN ('accept', 'reject', 'reopen'));

-- Facts that a person rejected: kept in the log, not recalled.
CREATE VIEW rejected_facts AS SELECT fact_id, actor, reason, created_at FROM fact_verdicts WHERE decision = 'reject';

-- Facts that a person pinned.
CREATE VIEW pinned_facts AS
SELECT fact_id, actor, created_at FROM fact_reviews AS newest
WHERE decision = 'pin' AND NOT EXISTS (
  SELECT 1 FROM fact_reviews AS later
  WHERE later.fact_id = newest.fact_id AND later.seq > newest.seq AND later.decision IN ('pin', 'unpin'));

CREATE TABLE analysis_types (
  -- Kinds of analysis over the memory. `observation` is consolidation.
  id           TEXT PRIMARY KEY,   -- observation, …
  description  TEXT NOT NULL,
  config_json  TEXT NOT NULL DEFAULT '{}',
  created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
INSERT INTO analysis_types (id, description)
VALUES ('observation', 'What a group of facts says together, with its changes over time.');

CREATE TABLE analysis_runs (
  -- Results of analyses. Observations have type `observation`. A new version links to the previous one.
  id                   TEXT PRIMARY KEY,   -- obs_… for observations, ana_… otherwise
  type_id              TEXT NOT NULL REFERENCES analysis_types (id),
  subject_entity_id    TEXT,               -- identity.entities
  content              TEXT NOT NULL,
  confidence           REAL NOT NULL DEFAULT 1.0,
  version              INTEGER NOT NULL DEFAULT 1,
  previous_version_id  TEXT REFERENCES analysis_runs (id),
  stale_at             TEXT,               -- when a newer fact made it stale
  stale_reason         TEXT,
  source_request_id    TEXT,               -- runtime.requests
  metadata_json        TEXT NOT NULL DEFAULT '{}',
  created_at           TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX analysis_runs_subject ON analysis_runs (subject_entity_id) WHERE subject_entity_id IS NOT NULL;
CREATE INDEX analysis_runs_previous ON analysis_runs (previous_version_id) WHERE previous_version_id IS NOT NULL;
CREATE INDEX analysis_runs_stale ON analysis_runs (stale_at) WHERE stale_at IS NOT NULL;

-- Observations, in all versions.
CREATE VIEW observations AS SELECT * FROM analysis_runs WHERE type_id = 'observation';

CREATE TABLE observation_facts (
  -- Facts that support each observation.
  observation_id  TEXT NOT NULL REFERENCES analysis_runs (id),
  fact_id         TEXT NOT NULL REFERENCES facts (id),
  PRIMARY KEY (observation_id, fact_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX observation_facts_fact ON observation_facts (fact_id);

CREATE TABLE mental_models (
  -- Saved answers of reflection. A new version links to the previous one.
  id                   TEXT PRIMARY KEY,   -- mod_…
  name                 TEXT NOT NULL,
  subject_entity_id    TEXT,               -- identity.entities
  content              TEXT NOT NULL,
  version              INTEGER NOT NULL DEFAULT 1,
  previous_version_id  TEXT REFERENCES mental_models (id),
  stale_at             TEXT,
  stale_reason         TEXT,
  source_request_id    TEXT,               -- runtime.requests
  metadata_json        TEXT NOT NULL DEFAULT '{}',
  created_at           TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX mental_models_name ON mental_models (name, version);
CREATE INDEX mental_models_previous ON mental_models (previous_version_id) WHERE previous_version_id IS NOT NULL;

CREATE TABLE mental_model_sources (
  -- Sources of each mental model.
  model_id     TEXT NOT NULL REFERENCES mental_models (id),
  source_type  TEXT NOT NULL CHECK (source_type IN ('fact', 'observation', 'mental_model')),
  source_id    TEXT NOT NULL,
  PRIMARY KEY (model_id, source_type, source_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX mental_model_sources_source ON mental_model_sources (source_id);

CREATE TABLE owner_profiles (
  -- Versions of the owner's profile. The newest is current; later versions keep what the owner wrote.
  id                 TEXT PRIMARY KEY,   -- pro_…
  version            INTEGER NOT NULL UNIQUE,
  content            TEXT NOT NULL,
  origin             TEXT NOT NULL CHECK (origin IN ('facts', 'consolidation', 'owner')),
  written            TEXT,               -- the owner's own text, kept by later versions
  written_at         TEXT,               -- when the owner wrote it
  source_request_id  TEXT,               -- runtime.requests
  created_at         TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE owner_profile_facts (
  -- Facts behind each line of a profile version.
  profile_id  TEXT NOT NULL REFERENCES owner_profiles (id),
  fact_id     TEXT NOT NULL REFERENCES facts (id),
  line        INTEGER NOT NULL,   -- the line it supports, from 1
  PRIMARY KEY (profile_id, fact_id, line)
) STRICT, WITHOUT ROWID;
CREATE INDEX owner_profile_facts_fact ON owner_profile_facts (fact_id);

-- The date of each conclusion: that of its newest evidence.
CREATE VIEW conclusion_dates AS
SELECT id, coalesce(
         (SELECT max(coalesce(as_of, valid_at)) FROM observation_facts JOIN facts ON facts.id = fact_id
          WHERE observation_id = analysis_runs.id),
         created_at) AS at
FROM analysis_runs
UNION ALL
SELECT id, coalesce(
         (SELECT max(at) FROM (
            SELECT coalesce(as_of, valid_at) AS at FROM mental_model_sources JOIN facts ON facts.id = source_id
            WHERE model_id = mental_models.id AND mental_model_sources.source_type = 'fact'
            UNION ALL
            SELECT coalesce(as_of, valid_at) FROM mental_model_sources
              JOIN observation_facts ON observation_id = source_id JOIN facts ON facts.id = fact_id
            WHERE model_id = mental_models.id AND mental_model_sources.source_type = 'observation')),
         created_at)
FROM mental_models;

CREATE TABLE processing_log (
  -- What background work has processed, so that nothing is processed twice.
  processor    TEXT NOT NULL,   -- memory-writer, consolidation, episodes, …
  target_type  TEXT NOT NULL,   -- event, fact, episode, mental_model, execution
  target_id    TEXT NOT NULL,
  status       TEXT NOT NULL CHECK (status IN ('done', 'failed', 'skipped', 'flagged')),
  attempts     INTEGER NOT NULL DEFAULT 1,
  detail       TEXT,
  request_id   TEXT,            -- runtime.requests
  created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (processor, target_type, target_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX processing_log_target ON processing_log (target_id);

CREATE TABLE backfills (
  -- Reading imported histories into the memory: what was chosen, and how far it has come.
  id                TEXT PRIMARY KEY,             -- bkf_…
  import_id         TEXT,                         -- events.imports; NULL: all of them
  sort              TEXT NOT NULL DEFAULT 'newest' CHECK (sort IN ('newest', 'oldest', 'relevant')),
  status            TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'paused', 'done', 'canceled')),
  reason            TEXT,                         -- why it is paused
  episodes_an_hour  INTEGER,                      -- the most; NULL: as many as the model answers
  budget_microusd   INTEGER,                      -- the most that it may cost; NULL: no limit
  budget_tokens     INTEGER,                      -- the most tokens that it may use; NULL: no limit
  estimate_json     TEXT NOT NULL DEFAULT '{}',   -- what it was expected to take when it was started
  round             INTEGER NOT NULL DEFAULT 0,   -- of its executions on the engine: only the last one works
  created_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  completed_at      TEXT
) STRICT;

CREATE TABLE backfill_episodes (
  -- The episodes of a backfill in the order in which they are read, and what became of each.
  backfill_id    TEXT NOT NULL REFERENCES backfills (id),
  episode_id     TEXT NOT NULL REFERENCES episodes (id),
  position       INTEGER NOT NULL,
  status         TEXT NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'done', 'skipped', 'failed')),
  facts          INTEGER NOT NULL DEFAULT 0,   -- written
  refused        INTEGER NOT NULL DEFAULT 0,   -- writes that the gate refused
  input_tokens   INTEGER NOT NULL DEFAULT 0,   -- of its last attempt, cached ones among them
  output_tokens  INTEGER NOT NULL DEFAULT 0,
  cost_microusd  INTEGER NOT NULL DEFAULT 0,
  finished_at    TEXT,
  PRIMARY KEY (backfill_id, episode_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX backfill_episodes_position ON backfill_episodes (backfill_id, status, position);
CREATE INDEX backfill_episodes_episode ON backfill_episodes (episode_id);

CREATE TABLE exams (
  -- Exams of the memory: which sample was asked, of how many facts, with what settings.
  id             TEXT PRIMARY KEY,       -- exm_…
  sample_id      TEXT NOT NULL,          -- exams.id: the exam that drew the sample
  facts          INTEGER NOT NULL,       -- that held when it was asked
  settings_json  TEXT NOT NULL,          -- what recall depends on: version, models
  questioner     TEXT,                   -- the model that worded the questions; NULL: the ledger's own words
  cost_microusd  INTEGER NOT NULL DEFAULT 0,
  duration_ms    INTEGER NOT NULL,
  created_at     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX exams_created ON exams (created_at);

CREATE TABLE exam_answers (
  -- How often each sampled fact was asked for, and how often it was found.
  exam_id    TEXT NOT NULL REFERENCES exams (id),
  fact_id    TEXT NOT NULL REFERENCES facts (id),
  age        TEXT NOT NULL CHECK (age IN ('month', 'year', 'older')),
  kind       TEXT NOT NULL CHECK (kind IN ('relationship', 'attribute', 'statement')),
  entity_id  TEXT,                       -- identity.entities: whom it is about
  asked      INTEGER NOT NULL,
  found      INTEGER NOT NULL,
  PRIMARY KEY (exam_id, fact_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX exam_answers_fact ON exam_answers (fact_id);

CREATE TABLE exam_findings (
  -- What is wrong with sampled facts, and the commands that correct it.
  exam_id        TEXT NOT NULL REFERENCES exams (id),
  fact_id        TEXT NOT NULL REFERENCES facts (id),
  kind           TEXT NOT NULL CHECK (kind IN ('hidden', 'vector', 'entity', 'alias', 'contradiction', 'source')),
  other_fact_id  TEXT REFERENCES facts (id),   -- of a contradiction
  entity_id      TEXT,                         -- identity.entities: whom the fact names
  detail         TEXT NOT NULL,
  fixes_json     TEXT NOT NULL,                -- [[what it does, command], …], the likeliest first
  PRIMARY KEY (exam_id, fact_id, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX exam_findings_fact ON exam_findings (fact_id);
CREATE INDEX exam_findings_other ON exam_findings (other_fact_id) WHERE other_fact_id IS NOT NULL;

CREATE TABLE exam_wordings (
  -- Questions in ordinary words that a model wrote for a fact, kept so that each is paid for once.
  fact_id     TEXT NOT NULL REFERENCES facts (id),
  model       TEXT NOT NULL,
  number      INTEGER NOT NULL,
  question    TEXT NOT NULL,
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (fact_id, model, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE shown (
  -- Memories that a consolidation or reflection run saw. Forgetting one also removes the run.
  execution_id  TEXT NOT NULL,   -- runtime.executions
  target_type   TEXT NOT NULL CHECK (target_type IN ('fact', 'observation', 'mental_model')),
  target_id     TEXT NOT NULL,
  PRIMARY KEY (execution_id, target_type, target_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX shown_target ON shown (target_id);

-- Source of the full-text index, which stores no copy of the text.
CREATE VIEW summaries_text AS
SELECT seq, id AS summary_id, coalesce(title || ': ', '') || summary AS content FROM summaries JOIN episodes USING (id)
UNION ALL
SELECT seq, id, content FROM summaries JOIN analysis_runs USING (id)
UNION ALL
SELECT seq, id, name || ': ' || content FROM summaries JOIN mental_models USING (id);

CREATE VIRTUAL TABLE summaries_fts USING fts5 (
  summary_id UNINDEXED, content,
  content = 'summaries_text', content_rowid = 'seq', tokenize = 'porter unicode61'
);
CREATE VIRTUAL TABLE summaries_terms USING fts5vocab (summaries_fts, row);

-- A summary from an episode's own words is not indexed: its messages are.
CREATE TRIGGER episodes_are_indexed AFTER INSERT ON episodes
WHEN NEW.summary IS NOT NULL AND (NEW.metadata_json ->> 'extracted') IS NOT 1
BEGIN
  INSERT INTO summaries (id) VALUES (NEW.id);
  INSERT INTO summaries_fts (rowid, summary_id, content)
  SELECT seq, NEW.id, coalesce(NEW.title || ': ', '') || NEW.summary FROM summaries WHERE id = NEW.id;
END;

CREATE TRIGGER episodes_are_reindexed AFTER UPDATE OF title, summary ON episodes
BEGIN
  INSERT INTO summaries_fts (summaries_fts, rowid, summary_id, content)
  SELECT 'delete', seq, OLD.id, coalesce(OLD.title || ': ', '') || OLD.summary FROM summaries WHERE id = OLD.id;
  DELETE FROM summaries WHERE id = OLD.id;
  INSERT INTO summaries (id) SELECT NEW.id WHERE NEW.summary IS NOT NULL AND (NEW.metadata_json ->> 'extracted') IS NOT 1;
  INSERT INTO summaries_fts (rowid, summary_id, content)
  SELECT seq, NEW.id, coalesce(NEW.title || ': ', '') || NEW.summary FROM summaries WHERE id = NEW.id;
END;

CREATE TRIGGER episodes_are_unindexed AFTER DELETE ON episodes
BEGIN
  INSERT INTO summaries_fts (summaries_fts, rowid, summary_id, content)
  SELECT 'delete', seq, OLD.id, coalesce(OLD.title || ': ', '') || OLD.summary FROM summaries WHERE id = OLD.id;
  DELETE FROM summaries WHERE id = OLD.id;
END;

CREATE TRIGGER analysis_runs_are_indexed AFTER INSERT ON analysis_runs
WHEN NEW.type_id = 'observation'
BEGIN
  INSERT INTO summaries (id) VALUES (NEW.id);
  INSERT INTO summaries_fts (rowid, summary_id, content)
  SELECT seq, NEW.id, NEW.content FROM summaries WHERE id = NEW.id;
END;

CREATE TRIGGER analysis_runs_are_reindexed AFTER UPDATE OF content ON analysis_runs
BEGIN
  INSERT INTO summaries_fts (summaries_fts, rowid, summary_id, content)
  SELECT 'delete', seq, OLD.id, OLD.content FROM summaries WHERE id = OLD.id;
  DELETE FROM summaries WHERE id = OLD.id;
  INSERT INTO summaries (id) SELECT NEW.id WHERE NEW.type_id = 'observation';
  INSERT INTO summaries_fts (rowid, summary_id, content)
  SELECT seq, NEW.id, NEW.content FROM summaries WHERE id = NEW.id;
END;

CREATE TRIGGER analysis_runs_are_unindexed AFTER DELETE ON analysis_runs
BEGIN
  INSERT INTO summaries_fts (summaries_fts, rowid, summary_id, content)
  SELECT 'delete', seq, OLD.id, OLD.content FROM summaries WHERE id = OLD.id;
  DELETE FROM summaries WHERE id = OLD.id;
END;

CREATE TRIGGER mental_models_are_indexed AFTER INSERT ON mental_models
BEGIN
  INSERT INTO summaries (id) VALUES (NEW.id);
  INSERT INTO summaries_fts (rowid, summary_id, content)
  SELECT seq, NEW.id, NEW.name || ': ' || NEW.content FROM summaries WHERE id = NEW.id;
END;

CREATE TRIGGER mental_models_are_reindexed AFTER UPDATE OF name, content ON mental_models
BEGIN
  INSERT INTO summaries_fts (summaries_fts, rowid, summary_id, content)
  SELECT 'delete', seq, OLD.id, OLD.name || ': ' || OLD.content FROM summaries WHERE id = OLD.id;
  DELETE FROM summaries WHERE id = OLD.id;
  INSERT INTO summaries (id) VALUES (NEW.id);
  INSERT INTO summaries_fts (rowid, summary_id, content)
  SELECT seq, NEW.id, NEW.name || ': ' || NEW.content FROM summaries WHERE id = NEW.id;
END;

CREATE TRIGGER mental_models_are_unindexed AFTER DELETE ON mental_models
BEGIN
  INSERT INTO summaries_fts (summaries_fts, rowid, summary_id, content)
  SELECT 'delete', seq, OLD.id, OLD.name || ': ' || OLD.content FROM summaries WHERE id = OLD.id;
  DELETE FROM summaries WHERE id = OLD.id;
END;

-- A conclusion becomes stale when a fact it rests on is replaced, or a conclusion it rests on becomes stale.
-- Other news about its subject doesn't make it stale.
CREATE INDEX mental_models_subject ON mental_models (subject_entity_id) WHERE subject_entity_id IS NOT NULL;

CREATE TRIGGER successions_make_stale AFTER INSERT ON fact_successions
BEGIN
  UPDATE analysis_runs SET stale_at = NEW.derived_at, stale_reason = 'newer: ' || NEW.new_fact_id
  WHERE id IN (SELECT observation_id FROM observation_facts WHERE fact_id = NEW.old_fact_id)
    AND id NOT IN (SELECT observation_id FROM observation_facts WHERE fact_id = NEW.new_fact_id)
    AND stale_at IS NULL;
  UPDATE mental_models SET stale_at = NEW.derived_at, stale_reason = 'newer: ' || NEW.new_fact_id
  WHERE id IN (SELECT model_id FROM mental_model_sources WHERE source_id = NEW.old_fact_id)
    AND id NOT IN (SELECT model_id FROM mental_model_sources WHERE source_id = NEW.new_fact_id)
    AND stale_at IS NULL;
END;

CREATE TRIGGER analysis_runs_make_stale AFTER UPDATE OF stale_at ON analysis_runs
WHEN OLD.stale_at IS NULL AND NEW.stale_at IS NOT NULL
BEGIN
  UPDATE mental_models SET stale_at = NEW.stale_at, stale_reason = 'stale: ' || NEW.id
  WHERE id IN (SELECT model_id FROM mental_model_sources WHERE source_id = NEW.id) AND stale_at IS NULL;
END;

CREATE TRIGGER newer_analysis_runs_make_stale AFTER INSERT ON analysis_runs
WHEN NEW.previous_version_id IS NOT NULL
BEGIN
  UPDATE mental_models SET stale_at = NEW.created_at, stale_reason = 'newer: ' || NEW.id
  WHERE id IN (SELECT model_id FROM mental_model_sources WHERE source_id = NEW.previous_version_id)
    AND stale_at IS NULL;
END;

CREATE TRIGGER newer_mental_models_make_stale AFTER INSERT ON mental_models
WHEN NEW.previous_version_id IS NOT NULL
BEGIN
  UPDATE mental_models SET stale_at = NEW.created_at, stale_reason = 'newer: ' || NEW.id
  WHERE id IN (SELECT model_id FROM mental_model_sources WHERE source_id = NEW.previous_version_id)
    AND stale_at IS NULL AND id <> NEW.id;
END;

-- What a rejected fact replaced is replaced by the fact's own successor, unless both are true, or holds again.
CREATE TRIGGER rejected_facts_replace_nothing AFTER INSERT ON fact_reviews
WHEN NEW.decision = 'reject'
BEGIN
  UPDATE fact_successions
  SET new_fact_id = (SELECT new_fact_id FROM fact_successions AS own WHERE own.old_fact_id = NEW.fact_id)
  WHERE new_fact_id = NEW.fact_id AND EXISTS (
    SELECT 1 FROM fact_successions AS own
    WHERE own.old_fact_id = NEW.fact_id AND own.new_fact_id <> fact_successions.old_fact_id
      AND NOT EXISTS (
        SELECT 1 FROM causal_links AS l
        WHERE l.relation = 'distinct' AND (l.cause_fact_id, l.effect_fact_id) IN (
          VALUES (fact_successions.old_fact_id, own.new_fact_id), (own.new_fact_id, fact_successions.old_fact_id))));
  DELETE FROM fact_successions WHERE new_fact_id = NEW.fact_id;
  UPDATE analysis_runs SET stale_at = NEW.created_at, stale_reason = 'rejected: ' || NEW.fact_id
  WHERE id IN (SELECT observation_id FROM observation_facts WHERE fact_id = NEW.fact_id) AND stale_at IS NULL;
  UPDATE mental_models SET stale_at = NEW.created_at, stale_reason = 'rejected: ' || NEW.fact_id
  WHERE id IN (SELECT model_id FROM mental_model_sources WHERE source_id = NEW.fact_id) AND stale_at IS NULL;
END;

CREATE TRIGGER reopened_facts_replace_again AFTER INSERT ON fact_reviews
WHEN NEW.decision IN ('accept', 'reopen') AND EXISTS (
  SELECT 1 FROM fact_reviews WHERE fact_id = NEW.fact_id AND decision = 'reject')
BEGIN
  INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis, how)
  SELECT cause_fact_id, effect_fact_id, 1.0, 'stated', coalesce(how, 'changed')
  FROM causal_links AS l
  WHERE relation = 'replaced' AND confidence >= 1.0 AND effect_fact_id = NEW.fact_id
    AND NOT EXISTS (SELECT 1 FROM fact_successions WHERE old_fact_id = l.cause_fact_id)
    AND NOT EXISTS (
      SELECT 1 FROM causal_links AS later
      WHERE later.rowid > l.rowid AND (
        (later.relation = 'distinct' AND (later.cause_fact_id, later.effect_fact_id) IN (
          VALUES (l.cause_fact_id, l.effect_fact_id), (l.effect_fact_id, l.cause_fact_id)))
        OR (later.relation = 'replaced' AND later.confidence >= 1.0
          AND later.cause_fact_id = l.effect_fact_id AND later.effect_fact_id = l.cause_fact_id)))
  ON CONFLICT (old_fact_id) DO NOTHING;
  INSERT INTO succession_progress (judge, position) SELECT 'again ' || id, seq - 1 FROM facts WHERE id = NEW.fact_id
  ON CONFLICT (judge) DO UPDATE
  SET position = min(position, excluded.position), updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now');
END;

CREATE TABLE follow_ups (
  -- Promises of the owner, of others and of the agent, each linked to the message that makes it.
  id                  TEXT PRIMARY KEY,   -- fup_…
  event_id            TEXT NOT NULL,      -- events.events: the message that makes the promise
  reply_thread_id     TEXT,               -- events.threads: the owner's conversation to raise it in
  source_request_id   TEXT,               -- runtime.requests: the request that recorded it
  promiser            TEXT NOT NULL CHECK (promiser IN ('owner', 'other', 'agent')),
  promiser_entity_id  TEXT,               -- identity.entities
  promiser_name       TEXT,
  recipient_entity_id TEXT,               -- identity.entities
  recipient_name      TEXT,
  promise             TEXT NOT NULL,      -- the sentence that makes the promise
  due_at              TEXT,               -- the latest moment, if one was named
  raise_at            TEXT,               -- when to raise it at the earliest
  status              TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'done', 'wrong')),
  closed_at           TEXT,
  closed_by_event_id  TEXT,               -- events.events: the message that shows that it was done
  raised_at           TEXT,
  raised_by           TEXT,               -- runtime.invocations: the invocation that raised it
  created_at          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX follow_ups_open ON follow_ups (raise_at) WHERE status = 'open';
CREATE INDEX follow_ups_event ON follow_ups (event_id);
CREATE INDEX follow_ups_raised ON follow_ups (raised_at) WHERE raised_at IS NOT NULL;
CREATE INDEX follow_ups_request ON follow_ups (source_request_id) WHERE source_request_id IS NOT NULL;
