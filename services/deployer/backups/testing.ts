import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import pg from "pg";
import { inject } from "vitest";
import { BackupService } from "../../../proto/gen/berth/deployer/v1/backups_pb.ts";
import { InternalService } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { newId } from "../../kit/ids.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import type { AddonType } from "../terms/services.ts";
import { actAs, type TestPlatform } from "../testing/testing.ts";

type Place = Pick<TestPlatform, "port" | "dataDir">;
type More = { from?: { service?: string; backup?: string; at?: Timestamp }; staged?: boolean };

/** An addon that runs, with what tests ask of its backups. */
export async function addonWithBackups(
  place: Place,
  type: AddonType,
  account = newId("acc"),
  more: More = {},
) {
  const { port, dataDir } = place;
  const acting = actAs(port, account);
  const { accountId, catalog } = acting;
  const environment = await acting.environment();
  const { id } = await catalog.createService({ ...environment, name: "store", type, ...(more as object) });
  const path = environment.at("store");
  if (!more.staged) await acting.untilService(path, "running");
  const backups = clientAs(BackupService, port, { accountId, role: "owner" });
  const variables = clientAs(InternalService, port, { kind: "service", id: "variables" });
  const keys = async () => {
    const { keys } = await variables.getAddonKeys({ serviceId: id });
    return Object.fromEntries(keys.map(({ key, value }) => [key, value])) as Record<string, string>;
  };
  const get = (backupId: string) => backups.getBackup({ ...path, backupId });
  const untilEnded = (backupId: string) =>
    eventually("the backup has ended", async () => {
      const found = await get(backupId);
      return found.status !== "running" && found;
    });
  const untilRestored = () =>
    eventually("the restore has ended", async () => {
      const found = (await catalog.getService(path)).backups?.restore;
      return found?.status !== "running" && found;
    });
  async function connect(): Promise<pg.Client> {
    const app = new pg.Client({ connectionString: (await keys()).URL });
    app.on("error", () => {});
    await app.connect();
    return app;
  }
  return {
    ...{ ...acting, environment, id, path, backups, keys, get, untilEnded, untilRestored, connect },
    /** Makes another addon in an environment of its own, which begins with the data of one. */
    fork: (from: More["from"], staged: Pick<More, "staged"> = {}) =>
      addonWithBackups(place, type, accountId, { from, ...staged }),
    /** Makes a backup, and returns it once it has ended. */
    backUp: async () => untilEnded((await backups.createBackup(path)).id),
    /** Restores a backup, and returns how that ended. */
    async restore(backup: string) {
      await backups.restoreBackup({ ...path, backup, confirmImpact: true });
      return untilRestored();
    },
    /** Runs a statement as the addon's apps do, and returns the rows. */
    async query(text: string): Promise<unknown[]> {
      const app = await connect();
      try {
        return (await app.query(text)).rows;
      } finally {
        await app.end();
      }
    },
    /** Returns the files of its backups in the object store. */
    objects: async () =>
      (await readdir(join(dataDir, "store", "objects"))).filter((name) => name.startsWith(`backups+${id}`)),
  };
}

/** Returns the names of all databases and roles of an addon. */
export async function namesOf(serviceId: string): Promise<string[]> {
  const admin = new pg.Client({ connectionString: inject("postgresAdminUrl") });
  await admin.connect();
  const { rows } = await admin.query(
    `select name from (select datname as name from pg_database union all select rolname from pg_roles) all_names
     where name like $1 order by name`,
    [`addon_${serviceId.slice(4)}%`],
  );
  await admin.end();
  return rows.map(({ name }) => name);
}
