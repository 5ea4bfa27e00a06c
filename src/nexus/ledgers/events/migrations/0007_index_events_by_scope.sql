-- What one user of an application may see is listed without a look at everybody else's.
CREATE INDEX events_scoped ON events (channel, seq) WHERE channel >= 'library:' AND channel < 'library;';
