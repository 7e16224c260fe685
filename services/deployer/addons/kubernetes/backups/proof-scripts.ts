import { WITHOUT_ROLES } from "../../port.ts";
import { POSTGRES_PATH } from "../server/server-scripts.ts";
import { COPY } from "./copy-request.ts";
import { REPORT, UNREADABLE } from "./scripts.ts";

/**
 * Scripts for `sh` in the image of an addon's server, which restore a backup to a server of their own: on local disk, without
 * network, gone with its pod. They report how many rows or keys it has.
 */

/** Where such a server has its data. */
export const SCRATCH = "/scratch";

/**
 * Restores a dump as a role that has nothing else, and reads all tables. Nothing is lost if this server crashes, so it waits
 * for no disk.
 */
export const proveDump = (role: string) => `set -u
umask 077
${POSTGRES_PATH}
data=${SCRATCH}/postgres
export PGHOST=/tmp
# From here on, whatever ends this also ends what sends the data.
exec 3< ${COPY.pipe}
{
  initdb -D $data -U postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 >/tmp/server \\
    && pg_ctl -D $data -w -t 300 -l /tmp/server -o "-c listen_addresses='' -c unix_socket_directories=/tmp -c fsync=off \\
      -c dynamic_shared_memory_type=mmap -c shared_buffers=64MB -c max_wal_size=256MB -c max_parallel_maintenance_workers=0 \\
      -c max_parallel_workers_per_gather=0" start >/dev/null \\
    && psql -XAtq -U postgres -d postgres -v ON_ERROR_STOP=1 -c 'create role "${role}" login' \\
      -c 'create database "${role}" owner "${role}"' \\
    && pg_restore --no-password -U ${role} -d ${role} --exit-on-error ${WITHOUT_ROLES.join(" ")} <&3
} 2> /tmp/errors || { cat /tmp/server >> /tmp/errors; ${REPORT}; exit 1; }
psql -XAtq -U ${role} -d ${role} -v ON_ERROR_STOP=1 > /tmp/counts 2> /tmp/errors <<'SQL' || { ${REPORT}; exit 1; }
select format('select pg_catalog.count(*) from %I.%I', n.nspname, c.relname) from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'm') and n.nspname not like 'pg\\_%' and n.nspname <> 'information_schema' \\gexec
SQL
awk '{ sum += $1 } END { printf "%.0f\\n", sum }' /tmp/counts > ${COPY.report}
`;

/** Starts a server from an RDB file: it listens once it has read it. */
export const proveSnapshot = `set -u
server=$(command -v redis-server || command -v valkey-server)
cd ${SCRATCH} || exit 1
"$server" --port 0 --unixsocket /tmp/socket --dir ${SCRATCH} --dbfilename received.rdb --appendonly no --save '' \\
  --logfile /tmp/output &
while :; do
  if grep -qi 'ready to accept connections' /tmp/output 2> /dev/null; then
    keys=$(sed -n 's/.*keys loaded: \\([0-9]*\\).*/\\1/p' /tmp/output)
    echo "\${keys:-0}" > ${COPY.report}
    exit 0
  fi
  kill -0 $! 2> /dev/null || { echo ${UNREADABLE} > ${COPY.report}; exit 1; }
  sleep 0.2
done
`;
