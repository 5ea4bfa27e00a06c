#!/bin/sh
# Lists the mental models, or shows one with its sources and its versions. Answers in JSON.
#
#   memory-models.sh [--stale] [--limit 50]
#   memory-models.sh "Sarah and deadlines"
#
# One is named by its name or the id of any version. Save one with `memory-write.sh mental-model`.
# Exit codes: 0 answered, 2 wrong arguments, 1 anything else.

case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
. "$here/client.sh"

answer=$(if [ $# -gt 0 ]; then printf '%s\0' "$@"; fi | request models)
told $? "$answer"
in_process mental-models --json "$@"
