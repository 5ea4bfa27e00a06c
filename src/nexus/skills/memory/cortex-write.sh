#!/bin/sh
exec "$(dirname -- "$0")/memory-write.sh" "$@"
