-- Senders were matched by their case-folded identifier, so that different people could be taken for one.
UPDATE OR IGNORE contact_identifiers SET normalized = identifier WHERE type = 'handle' AND normalized <> identifier;
