#!/bin/sh
# Searches the memory by meaning, words, names, ties and time. Answers in JSON, with scores and reasons.
#
#   memory-search.sh "query text" [--scope entities,episodes,events,facts] [--limit 10]
#                    [--after 2026-05-01] [--before 2026-06-01] [--channel imessage] [--budget low|mid|high]
#
# For anything that SQL can say, see QUERIES.md. Exit codes: 0 answered, 2 wrong arguments, 1 anything else.

case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
. "$here/client.sh"

answer=$(if [ $# -gt 0 ]; then printf '%s\0' "$@"; fi | request search)
told $? "$answer"
in_process search "$@"
