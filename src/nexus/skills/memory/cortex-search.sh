#!/bin/sh
exec "$(dirname -- "$0")/memory-search.sh" "$@"
