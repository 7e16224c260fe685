import { createHash, createHmac } from "node:crypto";
import { addonName } from "../keys.ts";
import type { AddonType } from "../port.ts";
import { scramVerifier } from "../scram.ts";

/** How a server of one type is run in a container; the image needs no more than a shell and its programs. */
export type Program = {
  port: number;
  /** A script for `sh`, which ends by becoming the server. Its memory in MiB. */
  start: (serviceId: string, memory: number) => string;
  /** A script for `sh` that succeeds while the server takes connections. */
  probe: string;
  /** A script for `sh` that asks the server to end cleanly, at once. */
  stop?: string;
  /** Files beside the server, made from the password, which is in none of them. */
  files: (serviceId: string, password: string) => Record<string, string>;
};

/** Where the files are. */
export const FILES = "/etc/berth";
/** Where the volume is. */
export const DATA = "/data";

// Debian keeps the programs out of the PATH.
const POSTGRES_PATH = `for dir in /usr/lib/postgresql/*/bin; do PATH="$dir:$PATH"; done`;

/**
 * Role and database are made with the data folder, which appears whole or not at all. The role's password is
 * set before the server takes connections, so a new one counts from a restart on and the old one no more.
 */
const postgres: Program = {
  port: 5432,
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
  // By the socket, where it is let in: a refusal would be a line in the log each time.
  probe: `${POSTGRES_PATH}; exec pg_isready -q -h /tmp -U postgres -d postgres`,
  // SIGTERM alone would wait for the clients to leave.
  stop: "kill -INT 1",
  files: (_serviceId, password) => ({ verifier: scramVerifier(password, saltOf(password)) }),
};

/** Of the memory a quarter is for what redis needs besides the data: buffers, and the copy while it rewrites. */
const redis: Program = {
  port: 6379,
  start: (_serviceId, memory) => `set -eu
umask 077
mkdir -p ${DATA}/redis
server=$(command -v redis-server || command -v valkey-server)
exec "$server" --port 6379 --protected-mode no --dir ${DATA}/redis --aclfile ${FILES}/users.acl \\
  --appendonly yes --save '' --maxmemory ${Math.floor((memory * 3) / 4)}mb --maxmemory-policy noeviction
`,
  // A user that may do nothing else asks, so that no probe needs the password.
  probe: `cli=$(command -v redis-cli || command -v valkey-cli)
REDISCLI_AUTH=probe VALKEYCLI_AUTH=probe "$cli" --user probe ping | grep -q PONG`,
  files: (_serviceId, password) => {
    const hash = createHash("sha256").update(password).digest("hex");
    return { "users.acl": `user default on #${hash} ~* &* +@all\nuser probe on nopass -@all +ping\n` };
  },
};

export const programs: Record<AddonType, Program> = { postgres, redis };

/**
 * A mark by which a password is known again; it does not lead back to one of 192 random bits. Each use of a
 * password has a mark of its own.
 */
export function passwordMark(password: string): string {
  return createHmac("sha256", password).update("berth addon mark").digest("hex").slice(0, 32);
}

/** The same salt for the same password: what is applied twice is the same. */
function saltOf(password: string): Buffer {
  return createHmac("sha256", password).update("berth addon salt").digest().subarray(0, 16);
}
