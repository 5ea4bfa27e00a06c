-- Hooks become automations. A file with the table `hooks` is of the program that was there before Nexus was written
-- in Python; the runtime ledger's schema is laid beside it first. Every row is kept.
-- Times that were numbers (seconds or milliseconds since 1970) become text.

INSERT INTO automations (
  id, name, description, mode, status, script_path, script_hash, triggers_json, config_json,
  created_by_agent, created_by_session, created_by_thread, version, previous_version_id,
  created_at, updated_at, disabled_at, disabled_reason, last_triggered, trigger_count,
  last_error, consecutive_errors, circuit_state, circuit_opened_at)
SELECT
  COALESCE(CAST(id AS TEXT), 'aut_' || upper(hex(randomblob(13)))),
  COALESCE(name, 'hook-' || rowid),
  description, COALESCE(mode, 'persistent'), COALESCE(status, 'active'),
  script_path, script_hash, triggers_json, config_json,
  created_by_agent, created_by_session, created_by_thread,
  COALESCE(CAST(version AS INTEGER), 1),
  (SELECT CAST(previous.id AS TEXT) FROM hooks AS previous WHERE previous.id = hooks.previous_version_id),
  COALESCE(
  CASE
    WHEN typeof(created_at) IN ('integer', 'real') AND created_at > 100000000000
      THEN strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch')
    WHEN typeof(created_at) IN ('integer', 'real')
      THEN strftime('%Y-%m-%dT%H:%M:%fZ', created_at, 'unixepoch')
    ELSE CAST(created_at AS TEXT)
  END, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  COALESCE(
  CASE
    WHEN typeof(updated_at) IN ('integer', 'real') AND updated_at > 100000000000
      THEN strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000.0, 'unixepoch')
    WHEN typeof(updated_at) IN ('integer', 'real')
      THEN strftime('%Y-%m-%dT%H:%M:%fZ', updated_at, 'unixepoch')
    ELSE CAST(updated_at AS TEXT)
  END, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  CASE
    WHEN typeof(disabled_at) IN ('integer', 'real') AND disabled_at > 100000000000
      THEN strftime('%Y-%m-%dT%H:%M:%fZ', disabled_at / 1000.0, 'unixepoch')
    WHEN typeof(disabled_at) IN ('integer', 'real')
      THEN strftime('%Y-%m-%dT%H:%M:%fZ', disabled_at, 'unixepoch')
    ELSE CAST(disabled_at AS TEXT)
  END,
  disabled_reason,
  CASE
    WHEN typeof(last_triggered) IN ('integer', 'real') AND last_triggered > 100000000000
      THEN strftime('%Y-%m-%dT%H:%M:%fZ', last_triggered / 1000.0, 'unixepoch')
    WHEN typeof(last_triggered) IN ('integer', 'real')
      THEN strftime('%Y-%m-%dT%H:%M:%fZ', last_triggered, 'unixepoch')
    ELSE CAST(last_triggered AS TEXT)
  END,
  COALESCE(CAST(trigger_count AS INTEGER), 0),
  last_error, COALESCE(CAST(consecutive_errors AS INTEGER), 0), COALESCE(circuit_state, 'closed'),
  CASE
    WHEN typeof(circuit_opened_at) IN ('integer', 'real') AND circuit_opened_at > 100000000000
      THEN strftime('%Y-%m-%dT%H:%M:%fZ', circuit_opened_at / 1000.0, 'unixepoch')
    WHEN typeof(circuit_opened_at) IN ('integer', 'real')
      THEN strftime('%Y-%m-%dT%H:%M:%fZ', circuit_opened_at, 'unixepoch')
    ELSE CAST(circuit_opened_at AS TEXT)
  END
FROM hooks;
DROP TABLE hooks;
