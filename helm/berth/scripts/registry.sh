#!/bin/sh
# Serves the registry to builds and to the deployer, and once a day at $COLLECT_AT (HH:MM in UTC, empty for never) frees
# what no image refers to. `registry garbage-collect` may remove what is pushed meanwhile: this server is stopped for as
# long as it runs. Nodes pull from a server of their own, which is not. `kill -USR1 1` collects at once.
set -u
config=$1
server=
collector=
wanted=
collected=

serve() {
  registry serve "$config" &
  server=$!
}

# Waits until a process has ended, whatever signals come meanwhile.
finish() {
  while kill -0 "$1" 2>/dev/null; do wait "$1"; done
}

stop() {
  for process in $server $collector; do kill -TERM "$process" 2>/dev/null; done
  for process in $server $collector; do finish "$process"; done
  exit 0
}

collect() {
  wanted=
  collected=$(date -u +%F)
  kill -TERM "$server"
  finish "$server"
  rm -f /tmp/collected
  (registry garbage-collect "$config" >/tmp/collected.log 2>&1 && touch /tmp/collected) &
  collector=$!
  finish "$collector"
  if [ -e /tmp/collected ]; then
    echo "registry: collected; $(grep 'blobs marked' /tmp/collected.log | tail -n 1)"
  else
    echo "registry: the collection failed and is repeated tomorrow:" >&2
    tail -n 20 /tmp/collected.log >&2
  fi
  collector=
  serve
}

trap 'wanted=yes' USR1
trap stop TERM INT
serve
while kill -0 "$server" 2>/dev/null; do
  sleep 20 &
  wait $!
  if [ "$(date -u +%H:%M)" = "${COLLECT_AT:-}" ] && [ "$collected" != "$(date -u +%F)" ]; then wanted=yes; fi
  if [ -n "$wanted" ]; then collect; fi
done
exit 1
