import { BackupRefusal } from "../terms/backup-refusal.ts";

/** What the user of a database can change. */
const KNOWN =
  /permission denied for \w+ \S+|must be owner of \w+ \S+|extension "[\w-]+" is not available|permission denied to create extension "[\w-]+"|role "[\w-]+" does not exist|unsupported version \([\d.]+\) in file header/;

/** Says that a server's image cannot restore an uploaded dump. */
export const TOO_OLD = "the programs of this server are too old to restore uploaded dumps";

/** The other lines may quote data of users. */
const FIRST = /^.*error: .*$/im;

/** Returns why pg_dump, pg_restore or psql failed, from what it wrote: a `BackupRefusal` where its user can change it. */
export function programFailure(errors: string, code: number | null | undefined): Error {
  const known = KNOWN.exec(errors)?.[0];
  if (errors.includes(TOO_OLD))
    return new BackupRefusal(
      "The server of the addon has programs that are too old to restore a dump that was uploaded.",
    );
  if (known) return new BackupRefusal(`The database refused it: ${known}.`);
  return new Error(`exit code ${code}: ${FIRST.exec(errors)?.[0].slice(0, 300) ?? "no reason was given"}`);
}
