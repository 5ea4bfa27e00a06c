# How the scripts of this folder reach the memory. Sourced by them, with `here` set to this folder.
#
# A running home answers on its socket. Arguments are sent as they are, each followed by a zero byte, so
# they may hold any text. Where nothing runs, the `nexus` program does the same in a process of its own.

socket='' home='' program=''
while IFS= read -r line; do
  case $line in
    socket=*) socket=${line#socket=} ;;
    home=*) home=${line#home=} ;;
    nexus=*) program=${line#nexus=} ;;
  esac
done <"$here/DB_PATHS"
# A run of an agent has a socket of its own, which knows on whose behalf it is used.
socket=${NEXUS_MEMORY_SOCKET:-$socket}

newline='
'

# What stands in for curl where there is none: the same request, the same answer.
python_client='
import socket, sys
body = sys.stdin.buffer.read()
asking = socket.socket(socket.AF_UNIX)
try:
    asking.connect(sys.argv[1])
except OSError:
    sys.exit(7)
asking.sendall(b"POST /%s HTTP/1.0\r\nHost: nexus\r\nContent-Length: %d\r\n\r\n" % (sys.argv[2].encode(), len(body)) + body)
answer = b"".join(iter(lambda: asking.recv(65536), b""))
head, _, content = answer.partition(b"\r\n\r\n")
sys.stdout.buffer.write(content + b"\n" + head.split()[1])
'

# request COMMAND: sends standard input, prints the answer and on a last line its HTTP status.
request() {
  # From inside its folder the socket has a short name: an address may have a hundred bytes only.
  cd "${socket%/*}" 2>/dev/null || return 7
  [ -S "${socket##*/}" ] || return 7
  if command -v curl >/dev/null; then
    curl -q --silent --noproxy '*' --max-time 300 --unix-socket "./${socket##*/}" \
      --header 'Content-Type: application/octet-stream' --header 'Expect:' \
      --data-binary @- --write-out '\n%{http_code}' "http://nexus/$1"
  elif command -v python3 >/dev/null; then
    python3 -I -S -c "$python_client" "./${socket##*/}" "$1"
  else
    return 7
  fi
}

# told STATUS ANSWER: prints the answer and ends, unless nobody was there to give one.
told() {
  [ "$1" -eq 7 ] && return
  if [ "$1" -ne 0 ]; then
    echo "The home did not answer." >&2
    exit 1
  fi
  case ${2##*"$newline"} in
    200) printf '%s\n' "${2%"$newline"*}" && exit 0 ;;
    400) printf '%s\n' "${2%"$newline"*}" >&2 && exit 2 ;;
    *) printf '%s\n' "${2%"$newline"*}" >&2 && exit 1 ;;
  esac
}

# in_process COMMAND ARGUMENT…: the same without a running home.
in_process() {
  [ -x "$program" ] || program=$(command -v nexus) || {
    echo "The home at $home is not running, and the nexus program is not here. Start it with \`nexus up\`." >&2
    exit 1
  }
  exec "$program" --home "$home" memory "$@"
}
