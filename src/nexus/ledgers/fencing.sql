-- name: create
CREATE TABLE IF NOT EXISTS home_fence (
  -- One row, in homes that several hosts may serve: the epoch of the host that may write.
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  epoch INTEGER NOT NULL
) STRICT

-- name: raise
INSERT INTO home_fence (id, epoch) VALUES (1, :epoch)
ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch WHERE excluded.epoch > epoch

-- name: epoch
SELECT epoch FROM home_fence
