import { createHash, createHmac } from "node:crypto";
import { ADDON_PORTS, type AddonType } from "../../../terms/services.ts";
import { addonName } from "../../keys.ts";
import { scramVerifier } from "../../scram.ts";

/** How a server of one type runs in a container; the image needs only a shell and the server's programs. */
export type Program = {
  port: number;
  /** Returns a script for `sh` that in the end execs the server; `memory` in MiB. With `service`, it has a standby. */
  start: (serviceId: string, memory: number, service?: string) => string;
  /** A script for `sh` that succeeds while the server accepts connections. */
  probe: string;
  /** A script for `sh` that makes the server shut down cleanly without waiting for its clients. */
  stop?: string;
  /** Returns the files that the server needs, derived from the password, which none of them holds. */
  files: (serviceId: string, password: string) => Record<string, string>;
};

/** Mount paths of the files, of those that only a server with a standby has, and of the volume. */
export const FILES = "/etc/berth";
export const REPLICATION_FILES = "/etc/berth-replication";
export const DATA = "/data";

// Debian keeps the programs out of the PATH.
export const POSTGRES_PATH = `for dir in /usr/lib/postgresql/*/bin; do PATH="$dir:$PATH"; done`;

/**
 * Sets `collecting` to the settings by which a server collects statements, where the image has the library: with one that is
 * not there, no server starts. The extension is not in the addon's database, as its role could not restore a dump that has it.
 */
export const tryCollecting = `collecting=
if single "$data" postgres 2>/dev/null <<'SQL'
LOAD 'pg_stat_statements'
CREATE EXTENSION IF NOT EXISTS pg_stat_statements
SQL
then collecting='-c shared_preload_libraries=pg_stat_statements -c pg_stat_statements.track_utility=off'; fi
`;

/**
 * Sets `limits` to how much a server writes ahead between checkpoints: a quarter of a small volume, which a bulk load would
 * fill otherwise. PostgreSQL's own limit is 1 GiB.
 */
export const limitWal = `mib=$(df -Pk "$data" | { read -r _; read -r _ kib _; echo $((kib / 4096)); })
[ "$mib" -gt 48 ] || mib=48
limits=
if [ "$mib" -lt 1024 ]; then limits="-c min_wal_size=32MB -c max_wal_size=\${mib}MB"; fi
`;

/**
 * Role and database are created with the data folder, which appears whole or not at all. The password is set before the
 * server accepts connections, so a restart brings in the new one and ends the old one.
 */
const postgres: Program = {
  port: ADDON_PORTS.postgres,
  start: (serviceId, memory) => {
    const name = addonName(serviceId);
    return `set -eu
umask 077
${POSTGRES_PATH}
data=${DATA}/postgres
single() { postgres --single -D "$1" -c exit_on_error=on -c log_min_error_statement=panic "$2" >/dev/null; }
if [ ! -d "$data" ]; then
  rm -rf "$data.new"
  initdb -D "$data.new" -U postgres --auth=reject --encoding=UTF8 --locale=C.UTF-8
  single "$data.new" postgres <<'SQL'
CREATE ROLE "${name}" LOGIN
CREATE DATABASE "${name}" OWNER "${name}"
REVOKE CONNECT, TEMPORARY ON DATABASE "${name}" FROM PUBLIC
SQL
  sync
  mv "$data.new" "$data"
fi
chmod 0700 "$data"
printf 'ALTER ROLE "%s" PASSWORD %s\\n' '${name}' "'$(cat ${FILES}/verifier)'" >/tmp/password.sql
single "$data" postgres </tmp/password.sql
rm /tmp/password.sql
${tryCollecting}${limitWal}printf 'local all postgres peer\\nhost all postgres all reject\\nhost all all all scram-sha-256\\n' >/tmp/pg_hba.conf
exec postgres -D "$data" $collecting $limits -c listen_addresses='*' -c port=5432 -c hba_file=/tmp/pg_hba.conf \\
  -c unix_socket_directories=/tmp -c shared_buffers=${Math.floor(memory / 4)}MB \\
  -c effective_cache_size=${Math.floor(memory / 2)}MB
`;
  },
  // Through the socket, where it is admitted: each refusal would be a line in the log.
  probe: `${POSTGRES_PATH}; exec pg_isready -q -h /tmp -U postgres -d postgres`,
  // SIGTERM alone would wait for the clients to leave.
  stop: "kill -INT 1",
  files: (_serviceId, password) => ({ verifier: scramVerifier(password, saltOf(password)) }),
};

/** Where a backup is put that the pod with this mark is to start from. */
export const restoreFile = (mark: string) => `${DATA}/restore-${mark}.rdb`;
/** Ends the mark of a pod that is to start from the data before a restore. */
export const UNDO = "-undo";

/**
 * Puts a backup in the place of the data, which stays beside it until the server serves. Can be interrupted anywhere: a
 * folder is whole when it has its name. A restore that never served is undone before the next.
 */
export const putRestored = (data = DATA) => `cd ${data}
put_back() { if [ -d redis.before ]; then rm -rf redis; mv redis.before redis; fi; }
case "\${RESTORE:-}" in
  '') ;;
  *${UNDO}) put_back ;;
  *)
    if [ -f "restore-$RESTORE.rdb" ]; then
      put_back
      rm -rf redis.new
      mkdir redis.new
      mv "restore-$RESTORE.rdb" redis.new/appendonly.aof
    fi
    if [ -f redis.new/appendonly.aof ]; then
      if [ -d redis ]; then mv redis redis.before; fi
      mv redis.new redis
    fi ;;
esac
rm -f restore-*.rdb received.rdb
`;

const SERVER = "server=$(command -v redis-server || command -v valkey-server)";
const CLI = "cli=$(command -v redis-cli || command -v valkey-cli)";
/** Each of these users may do nothing else, so that no probe needs a password. */
const as = (user: string, program = '"$cli"') =>
  `REDISCLI_AUTH=${user} VALKEYCLI_AUTH=${user} ${program} --user ${user}`;

/** Fails unless the server answers. */
const answers = (data: string) => `case $(${as("probe")} ping) in
  *PONG*) rm -rf ${data}/redis.before ;;
  *MISCONF*) ;; # Its volume is full: it takes no writes, and answers reads.
  *) exit 1 ;;
esac`;

/**
 * Sets `role` of a server with a standby: what its pod has been so far, or what the template says. One that is to be the
 * primary is not when another one answers as that: it has missed that it was replaced.
 */
export const chooseRole = (service: string, tmp = "/tmp") => `role=$(cat ${tmp}/role 2>/dev/null || true)
if [ -z "$role" ]; then
  role=slave
  if [ "\${POD##*-}" = "$PRIMARY" ]; then role=master; fi
fi
${CLI}
if [ "$role" = master ] && [ "$(${as("role", 'timeout 3 "$cli"')} -h ${service} role | head -n 1)" = master ]
then role=slave; fi
`;

/**
 * Succeeds while a server is the primary, or has all that the primary has; notes which of both it is, for the container that is
 * started in the same pod when this one ends.
 */
export const probeRole = (data = DATA, tmp = "/tmp") => `${CLI}
${answers(data)}
set -- $(${as("role")} role)
case "\${1:-}" in master | slave) echo "$1" > ${tmp}/role ;; *) exit 1 ;; esac
[ "$1" = master ] || [ "\${4:-}" = connected ]
`;

/** What a standby has not taken yet is kept for it up to this share of the memory; the primary is not to end for it. */
const UNSENT = 1 / 8;

/** A quarter of the memory is for what redis needs besides the data: buffers, and copied pages during a rewrite. */
const redis: Program = {
  port: ADDON_PORTS.redis,
  start: (_serviceId, memory, service) => {
    const begin = `set -eu
umask 077
${putRestored()}mkdir -p ${DATA}/redis
${SERVER}
`;
    const settings = `--appendonly yes --save '' --maxmemory ${Math.floor((memory * 3) / 4)}mb --maxmemory-policy noeviction`;
    if (service === undefined)
      return `${begin}exec "$server" --port 6379 --protected-mode no --dir ${DATA}/redis --aclfile ${FILES}/users.acl \\
  ${settings}
`;
    return `${begin}cat ${FILES}/users.acl ${REPLICATION_FILES}/users.acl > /tmp/users.acl
${chooseRole(service)}if [ "$role" = slave ]; then set -- --replicaof ${service} 6379; fi
exec "$server" ${REPLICATION_FILES}/redis.conf --port 6379 --protected-mode no --dir ${DATA}/redis --aclfile /tmp/users.acl \\
  ${settings} \\
  --repl-diskless-sync-delay 0 --client-output-buffer-limit replica ${Math.floor(memory * UNSENT)}mb 0 0 "$@"
`;
  },
  probe: `${CLI}
${answers(DATA)}`,
  files: (_serviceId, password) => {
    return {
      "users.acl": `user default on #${sha256(password)} ~* &* +@all\nuser probe on nopass -@all +ping\n`,
    };
  },
};

/**
 * Returns the files of both servers of an addon with a standby, by whose user one reads all of the other, and the deployer has
 * one take over.
 */
export const replicationFiles = (secret: string): Record<string, string> => ({
  "redis.conf": `masteruser replication\nmasterauth ${secret}\n`,
  "users.acl": `user replication on #${sha256(secret)} -@all +ping +psync +replconf +info +replicaof +failover
user role on nopass -@all +ping +role
`,
});

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

export const programs: Record<AddonType, Program> = { postgres, redis };

/** Returns a mark that identifies a password but does not reveal it, given that it has 192 random bits. */
export function passwordMark(password: string): string {
  return createHmac("sha256", password).update("berth addon mark").digest("hex").slice(0, 32);
}

/** Returns the same salt for the same password, so that applying it twice changes nothing. */
function saltOf(password: string): Buffer {
  return createHmac("sha256", password).update("berth addon salt").digest().subarray(0, 16);
}
