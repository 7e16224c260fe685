import { WITHOUT_ROLES } from "../../port.ts";
import { TOO_OLD } from "../../program-failure.ts";
import { POSTGRES_PATH, restoreFile } from "../server/server-scripts.ts";
import { COPY } from "./copy-request.ts";

/** Scripts for `sh` in the image of an addon's server: the programs there have its version. */

/** What they wrote to the file of errors, for the deployer: the first lines that say so. */
export const REPORT = `grep -m 3 -iE '(error|fatal): ' /tmp/errors | cut -c1-400 > ${COPY.report}`;

export const makePipe = `mkfifo -m 0666 ${COPY.pipe}`;

/** The network of a cluster may not know yet where a new pod is, or that it may reach the server. */
const untilReached = "for _ in $(seq 60); do pg_isready -q && break; sleep 1; done";

/** Dumps the database that the PG variables name to the pipe. It is opened first, so that its end is always seen. */
export const dump = `set -u
${POSTGRES_PATH}
exec 3> ${COPY.pipe}
${untilReached}
{ psql -XAtq -c 'show server_version' > ${COPY.version} \
  && pg_dump --no-password --format=custom --lock-wait-timeout=60000 >&3; } 2> /tmp/errors
code=$?
exec 3>&-
${REPORT}
echo $code > ${COPY.status}
exit $code
`;

/**
 * Waits until all that was committed up to now is archived, with a commit after it: recovery to a moment ends at the first
 * commit behind that, and fails where there is none.
 */
export const archiveNow = `set -u
${POSTGRES_PATH}
${untilReached}
file=$(psql -XAtq -c "select pg_walfile_name(pg_logical_emit_message(true, 'berth', ''))" 2> /tmp/errors) || { ${REPORT}; exit 1; }
for _ in $(seq 150); do
  archived=$(psql -XAtq -c "select left(last_archived_wal, 24) >= '$file' from pg_stat_archiver where last_archived_wal ~ '^[0-9A-F]{24}'" 2> /tmp/errors)
  [ "$archived" = t ] && exit 0
  sleep 2
done
echo 'error: what was written is not archived' > /tmp/errors
${REPORT}
exit 1
`;

/**
 * What pg_restore writes for psql has what a dump says, and psql would run its commands: one that was uploaded might have
 * any. Since 18.0, 17.6 and what was released with them, pg_restore has psql refuse them.
 */
const requireRestricted = `pg_restore --help | grep -q -e --restrict-key || {
  echo 'error: ${TOO_OLD}' > /tmp/errors
  ${REPORT}
  exit 1
}
`;

/**
 * Replaces all that the role has in its database by the dump from the pipe, in one transaction: apps wait for it, and
 * after a failure everything is as before. Only the script that pg_restore has written to its end commits.
 */
export const restore = ({ foreign = false, uploaded = false }) => `set -u
${POSTGRES_PATH}
${untilReached}
${uploaded ? requireRestricted : ""}{
  cat <<'SQL'
select pg_terminate_backend(pid) from pg_stat_activity
  where usename = current_user and pid <> pg_backend_pid() and backend_type = 'client backend';
set client_min_messages = error;
begin;
set local lock_timeout = '60s';
drop owned by current_user cascade;
select format('grant all on database %I to current_user', current_database()) \\gexec
create schema if not exists public;
SQL
  pg_restore ${foreign ? WITHOUT_ROLES.join(" ") : ""} --single-transaction --file=- < ${COPY.pipe} 2>> /tmp/errors && echo "select 'restored';"
} | psql -XAtq -v ON_ERROR_STOP=1 2>> /tmp/errors | tail -n 1 > /tmp/last
[ "$(cat /tmp/last)" = restored ] && exit 0
${REPORT}
exit 1
`;

/** What the container reports of a file from which the server could not start. */
export const UNREADABLE = "unreadable";

/** Takes an RDB file from which the server can start, under the name by which its pod looks for it. */
export const checkSnapshot = (mark: string) => `set -u
check=$(command -v redis-check-rdb || command -v valkey-check-rdb)
"$check" ${COPY.volume} > /tmp/errors 2>&1 || { echo ${UNREADABLE} > ${COPY.report}; exit 1; }
mv ${COPY.volume} ${restoreFile(mark)}
`;
