-- When a person's datum was true: one that was said later replaces an earlier one, in whatever order they are read.
ALTER TABLE person_facts ADD COLUMN as_of TEXT;
