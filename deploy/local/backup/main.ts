import { parseArgs } from "node:util";
import { type Done, runCommand } from "../../../services/kit/process/command.ts";
import { readConfig } from "../../../services/kit/process/config.ts";
import { makeBackup } from "../../backup/backup.ts";
import type { Bucket } from "../../backup/bucket.ts";
import { placeFields } from "../../backup/config.ts";
import { openFolder } from "../../backup/folder.ts";
import { openBackups } from "../../backup/open.ts";
import { restoreBackup } from "../../backup/restore.ts";
import { exitCodes, StartFailure } from "../failure.ts";
import { dataFolder, typedPath } from "../terminal/options.ts";
import { withServers, withStoppedPlatform } from "./servers.ts";

const usage = `npm run backup -- --to DIR [--data DIR] [--keep N]
npm run restore -- --from DIR [--data DIR] [--name BACKUP]

  --to, --from  the folder of the backups; without it, the S3 that BACKUP_S3_ENDPOINT, _REGION, _BUCKET,
                _PREFIX, _ACCESS_KEY and _SECRET_KEY name
  --data DIR    data folder (default: .berth in the project)
  --keep N      how many backups stay (default: 7)
  --name NAME   the backup to restore (default: the newest)`;

/** What a backup of one machine does not hold (docs/backup.md#one-machine). */
const MISSING = [
  "the keys (secrets.json)",
  "the data of addons",
  "builds of apps",
  "the mails and payments of the local pages",
];

const text = { type: "string" } as const;

async function backup(args: string[]): Promise<Done> {
  const values = parse(args, { to: text, data: text, keep: text });
  const keep = Number(values.keep ?? 7);
  if (!Number.isInteger(keep) || keep < 1) throw misused("--keep must be a number from 1");
  const backups = await placeOf(values.to);
  await backups.make();
  return withServers(dataFolder(values.data), (servers) =>
    makeBackup({ ...servers, backups }, { keep, missing: MISSING }),
  );
}

async function restore(args: string[]): Promise<Done> {
  const values = parse(args, { from: text, data: text, name: text });
  const backups = await placeOf(values.from);
  return withStoppedPlatform(dataFolder(values.data), async ({ secrets, makeAddonsAgain, ...servers }) => {
    const { encryptionKeys } = secrets;
    const options = { encryptionKeys, from: values.name, patience: 0, prepareServers: async () => {} };
    const done = await restoreBackup({ ...servers, backups }, options);
    if (done.exitCode === 0) await makeAddonsAgain();
    return done;
  });
}

function parse<T extends Record<string, typeof text>>(args: string[], options: T) {
  try {
    return parseArgs({ args, options }).values as { [name in keyof T]?: string };
  } catch (error) {
    throw misused((error as Error).message.split(". ")[0] as string);
  }
}

const misused = (what: string) => new StartFailure("usage", `${what}.\n\n${usage}`);

async function placeOf(folder: string | undefined): Promise<Bucket> {
  if (folder !== undefined) return openFolder(typedPath(folder));
  if (!process.env.BACKUP_S3_ENDPOINT) throw misused("Name the folder of the backups");
  return openBackups(readConfig(process.env, placeFields));
}

await runCommand(async () => {
  const [command, ...args] = process.argv.slice(2);
  try {
    return command === "restore" ? await restore(args) : await backup(args);
  } catch (error) {
    if (!(error instanceof StartFailure)) throw error;
    return { output: `${error.message}\n`, exitCode: exitCodes[error.kind] };
  }
});
