-- Quiet hours hold what nobody asked for. What is set with a command or in the dashboard wins over config.toml.
ALTER TABLE channels ADD COLUMN answer TEXT CHECK (answer IN ('addressed', 'always', 'never'));
ALTER TABLE channels ADD COLUMN quiet_hours TEXT;
ALTER TABLE channels ADD COLUMN zone TEXT;
ALTER TABLE deliveries ADD COLUMN unasked INTEGER NOT NULL DEFAULT 0 CHECK (unasked IN (0, 1));
