import { BackupRefusal } from "../terms/backup-refusal.ts";

/** What the user of a database can change, by how a server's message begins: what is quoted are names, never data. */
const KNOWN = [
  /^permission denied (?:for|to) .+/,
  /^must be (?:owner of|superuser|able to) .+/,
  /^extension "[\w-]+" is not available/,
  // Of a relation it is a matter of time: an app may have removed it while it was dumped.
  /^(?:role|type|schema|function|collation|language|access method|operator class) .+ does not exist/,
  /^unrecognized configuration parameter "[\w.]+"/,
  /^could not create unique index "[^"]+"/,
  /^(?:duplicate key value|insert or update on table "[^"]+") violates [a-z ]+ constraint "[^"]+"/,
  /^unsupported version \([\d.]+\) in file header/,
];

/** What pg_restore says of a dump of which a part is missing, or is another one. */
const DAMAGED =
  /could not read from input file: end of file|could not find block ID \d+ in archive|unexpected block ID|unrecognized data block type|could not (?:uncompress|decompress) data|corrupt TOC|sanity check on integer size/;

/** Says that a server's image cannot restore an uploaded dump. */
export const TOO_OLD = "the programs of this server are too old to restore uploaded dumps";

/** The other lines may quote data of users. */
const FIRST = /^.*error: .*$/im;

/**
 * Returns why pg_dump, pg_restore or psql failed, from what it wrote: a `BackupRefusal` where its user can change it. `whole`:
 * it was given all that there is of the backup, so that what it misses will be missing again.
 */
export function programFailure(errors: string, code: number | null | undefined, whole = false): Error {
  const messages = errors.split("\n").map((line) => line.split(/(?:error|fatal): +/i).at(-1)!);
  const [known] = messages.flatMap((message) => KNOWN.flatMap((pattern) => pattern.exec(message)?.[0] ?? []));
  if (errors.includes(TOO_OLD))
    return new BackupRefusal(
      "The server of the addon has programs that are too old to restore a dump that was uploaded.",
    );
  if (known) return new BackupRefusal(`The database refused it: ${known.slice(0, 300)}.`);
  if (whole && DAMAGED.test(errors))
    return new BackupRefusal(
      "The backup is damaged, or a part of it is missing. Restore another one, or upload the whole dump again.",
    );
  return new Error(`exit code ${code}: ${FIRST.exec(errors)?.[0].slice(0, 300) ?? "no reason was given"}`);
}
