-- name: messages
-- Messages in order, with their chat, who wrote them, and whether files came with them.
SELECT message.ROWID, message.guid, message.text, message.attributedBody, message.date, message.is_from_me,
       handle.id, chat.chat_identifier, chat.display_name, message.thread_originator_guid, message.date_edited,
       EXISTS (SELECT 1 FROM message_attachment_join WHERE message_id = message.ROWID)
FROM message
LEFT JOIN handle ON handle.ROWID = message.handle_id
LEFT JOIN chat ON chat.ROWID = (SELECT min(chat_id) FROM chat_message_join WHERE message_id = message.ROWID)
WHERE message.ROWID > ? AND coalesce(message.associated_message_type, 0) = 0 AND message.item_type = 0
ORDER BY message.ROWID

-- name: files
SELECT attachment.filename, attachment.transfer_name, attachment.mime_type, attachment.total_bytes
FROM message_attachment_join JOIN attachment ON attachment.ROWID = attachment_id
WHERE message_id = ? ORDER BY attachment_id LIMIT 100
