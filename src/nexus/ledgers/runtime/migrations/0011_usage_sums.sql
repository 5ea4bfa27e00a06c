-- What was spent is added up when it is written, so that a year of it is read in a moment.
CREATE TABLE usage_days (
  -- Sums of `usage` by day (UTC), model, role and automation. Its triggers keep them.
  day                 TEXT NOT NULL,
  provider            TEXT NOT NULL,
  model               TEXT NOT NULL,
  role                TEXT NOT NULL,      -- empty where none is known
  automation          TEXT NOT NULL,      -- empty where none caused it
  calls               INTEGER NOT NULL,
  input_tokens        INTEGER NOT NULL,
  cache_read_tokens   INTEGER NOT NULL,
  cache_write_tokens  INTEGER NOT NULL,
  output_tokens       INTEGER NOT NULL,
  cost_microusd       INTEGER NOT NULL,
  unpriced_calls      INTEGER NOT NULL,   -- those whose price is not known: the money leaves them out
  PRIMARY KEY (day, provider, model, role, automation)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_roots (
  -- Sums of `usage` by message, with everything that it led to. Its triggers keep them.
  root_request_id     TEXT PRIMARY KEY,
  day                 TEXT NOT NULL,      -- of its first call
  calls               INTEGER NOT NULL,
  input_tokens        INTEGER NOT NULL,
  cache_read_tokens   INTEGER NOT NULL,
  cache_write_tokens  INTEGER NOT NULL,
  output_tokens       INTEGER NOT NULL,
  cost_microusd       INTEGER NOT NULL,
  unpriced_calls      INTEGER NOT NULL    -- those whose price is not known: the money leaves them out
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_roots_dearest ON usage_roots (day, cost_microusd);

INSERT INTO usage_days
SELECT substr(created_at, 1, 10), provider, model, coalesce(role, ''), coalesce(automation, ''), count(*),
       sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(output_tokens),
       coalesce(sum(cost_microusd), 0), count(*) - count(cost_microusd)
FROM usage GROUP BY 1, 2, 3, 4, 5;
INSERT INTO usage_roots
SELECT root_request_id, substr(min(created_at), 1, 10), count(*), sum(input_tokens), sum(cache_read_tokens),
       sum(cache_write_tokens), sum(output_tokens), coalesce(sum(cost_microusd), 0),
       count(*) - count(cost_microusd)
FROM usage GROUP BY root_request_id;

CREATE TRIGGER usage_is_added_up AFTER INSERT ON usage
BEGIN
  INSERT INTO usage_days
  VALUES (substr(new.created_at, 1, 10), new.provider, new.model, coalesce(new.role, ''),
          coalesce(new.automation, ''), 1, new.input_tokens, new.cache_read_tokens, new.cache_write_tokens,
          new.output_tokens, coalesce(new.cost_microusd, 0), new.cost_microusd IS NULL)
  ON CONFLICT DO UPDATE
  SET calls = calls + 1, input_tokens = input_tokens + excluded.input_tokens,
      cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
      cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
      output_tokens = output_tokens + excluded.output_tokens,
      cost_microusd = cost_microusd + excluded.cost_microusd,
      unpriced_calls = unpriced_calls + excluded.unpriced_calls;
  INSERT INTO usage_roots
  VALUES (new.root_request_id, substr(new.created_at, 1, 10), 1, new.input_tokens, new.cache_read_tokens,
          new.cache_write_tokens, new.output_tokens, coalesce(new.cost_microusd, 0), new.cost_microusd IS NULL)
  ON CONFLICT DO UPDATE
  SET day = min(day, excluded.day), calls = calls + 1, input_tokens = input_tokens + excluded.input_tokens,
      cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
      cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
      output_tokens = output_tokens + excluded.output_tokens,
      cost_microusd = cost_microusd + excluded.cost_microusd,
      unpriced_calls = unpriced_calls + excluded.unpriced_calls;
END;
CREATE TRIGGER usage_is_corrected
AFTER UPDATE OF input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_microusd ON usage
BEGIN
  UPDATE usage_days
  SET input_tokens = input_tokens + new.input_tokens - old.input_tokens,
      cache_read_tokens = cache_read_tokens + new.cache_read_tokens - old.cache_read_tokens,
      cache_write_tokens = cache_write_tokens + new.cache_write_tokens - old.cache_write_tokens,
      output_tokens = output_tokens + new.output_tokens - old.output_tokens,
      cost_microusd = cost_microusd + coalesce(new.cost_microusd, 0) - coalesce(old.cost_microusd, 0),
      unpriced_calls = unpriced_calls + (new.cost_microusd IS NULL) - (old.cost_microusd IS NULL)
  WHERE day = substr(new.created_at, 1, 10) AND provider = new.provider AND model = new.model
    AND role = coalesce(new.role, '') AND automation = coalesce(new.automation, '');
  UPDATE usage_roots
  SET input_tokens = input_tokens + new.input_tokens - old.input_tokens,
      cache_read_tokens = cache_read_tokens + new.cache_read_tokens - old.cache_read_tokens,
      cache_write_tokens = cache_write_tokens + new.cache_write_tokens - old.cache_write_tokens,
      output_tokens = output_tokens + new.output_tokens - old.output_tokens,
      cost_microusd = cost_microusd + coalesce(new.cost_microusd, 0) - coalesce(old.cost_microusd, 0),
      unpriced_calls = unpriced_calls + (new.cost_microusd IS NULL) - (old.cost_microusd IS NULL)
  WHERE root_request_id = new.root_request_id;
END;
DROP INDEX usage_day;
DROP INDEX usage_automation;
