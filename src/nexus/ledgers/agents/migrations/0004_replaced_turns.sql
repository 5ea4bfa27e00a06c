-- A message that is edited and an answer that is regenerated leave what they replace out of the history.
ALTER TABLE agent_turns ADD COLUMN replaces_from INTEGER;
