#!/bin/sh
# Writes to the memory: what a bare INSERT would forget (aliases, merge candidates, mentions, ids, embedding).
#
#   memory-write.sh entity --name "Sarah Chen" --type Person --alias "sarah.chen@company.com:email"
#   memory-write.sh fact --about "Sarah Chen" --fact "Sarah is allergic to nuts"
#   memory-write.sh batch < operations.jsonl
#
# Without arguments it lists every operation. Answers are JSON. Exit codes: 0 written, 2 wrong arguments
# (nothing was written; what was wrong is said, with an example), 1 anything else.

case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
. "$here/client.sh"

if [ "${1-}" = batch ]; then
  # Asked first, because standard input can be sent only once.
  answer=$(request ping </dev/null)
  [ $? -eq 7 ] && in_process write batch
  answer=$(request batch)
  told $? "$answer"
  echo "The home stopped before it answered." >&2
  exit 1
fi
answer=$(if [ $# -gt 0 ]; then printf '%s\0' "$@"; fi | request write)
told $? "$answer"
in_process write "$@"
