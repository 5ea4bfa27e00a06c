-- One home can hold the memories of many users of an application, apart from each other.
ALTER TABLE entities ADD COLUMN scope TEXT NOT NULL DEFAULT '';
