import { createHash, createHmac } from "node:crypto";
import { ADDON_PORTS, type AddonType } from "../../../terms/services.ts";
import { addonName } from "../../keys.ts";
import { scramVerifier } from "../../scram.ts";

/** How a server of one type runs in a container; the image needs only a shell and the server's programs. */
export type Program = {
  port: number;
  /** Returns a script for `sh` that in the end execs the server; `memory` in MiB. */
  start: (serviceId: string, memory: number) => string;
  /** A script for `sh` that succeeds while the server accepts connections. */
  probe: string;
  /** A script for `sh` that makes the server shut down cleanly without waiting for its clients. */
  stop?: string;
  /** Returns the files that the server needs, derived from the password, which none of them holds. */
  files: (serviceId: string, password: string) => Record<string, string>;
};

/** Mount paths of the files and of the volume. */
export const FILES = "/etc/berth";
export const DATA = "/data";

// Debian keeps the programs out of the PATH.
export const POSTGRES_PATH = `for dir in /usr/lib/postgresql/*/bin; do PATH="$dir:$PATH"; done`;

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
printf 'local all postgres peer\\nhost all postgres all reject\\nhost all all all scram-sha-256\\n' >/tmp/pg_hba.conf
exec postgres -D "$data" -c listen_addresses='*' -c port=5432 -c hba_file=/tmp/pg_hba.conf \\
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

/** A quarter of the memory is for what redis needs besides the data: buffers, and copied pages during a rewrite. */
const redis: Program = {
  port: ADDON_PORTS.redis,
  start: (_serviceId, memory) => `set -eu
umask 077
${putRestored()}mkdir -p ${DATA}/redis
server=$(command -v redis-server || command -v valkey-server)
exec "$server" --port 6379 --protected-mode no --dir ${DATA}/redis --aclfile ${FILES}/users.acl \\
  --appendonly yes --save '' --maxmemory ${Math.floor((memory * 3) / 4)}mb --maxmemory-policy noeviction
`,
  // Its own user, which may do nothing else, so that no probe needs the password.
  probe: `cli=$(command -v redis-cli || command -v valkey-cli)
REDISCLI_AUTH=probe VALKEYCLI_AUTH=probe "$cli" --user probe ping | grep -q PONG && rm -rf ${DATA}/redis.before`,
  files: (_serviceId, password) => {
    const hash = createHash("sha256").update(password).digest("hex");
    return { "users.acl": `user default on #${hash} ~* &* +@all\nuser probe on nopass -@all +ping\n` };
  },
};

export const programs: Record<AddonType, Program> = { postgres, redis };

/** Returns a mark that identifies a password but does not reveal it, given that it has 192 random bits. */
export function passwordMark(password: string): string {
  return createHmac("sha256", password).update("berth addon mark").digest("hex").slice(0, 32);
}

/** Returns the same salt for the same password, so that applying it twice changes nothing. */
function saltOf(password: string): Buffer {
  return createHmac("sha256", password).update("berth addon salt").digest().subarray(0, 16);
}
