-- What was spent in a year is added up in the order of the index, without a look at the rows.
CREATE INDEX usage_day ON usage (
  substr(created_at, 1, 10), provider, model, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens,
  cost_microusd);
