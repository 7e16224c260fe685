import { randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import type pg from "pg";
import { createKeyedMutex } from "../../../../kit/concurrency/keyed-mutex.ts";
import type { Logger } from "../../../../kit/log.ts";
import type { ObjectStore } from "../../../store/port.ts";
import { addonName } from "../../keys.ts";
import { type StoredBackup, WITHOUT_ROLES } from "../../port.ts";
import { scramVerifier } from "../../scram.ts";
import { type ClientProgram, feed, outputOf } from "../client-program.ts";
import type { createPostgresPrograms } from "./programs.ts";
import { createPostgresProofs } from "./proofs.ts";
import { asAdmin, closeToOthers, copiesOf } from "./shared-server.ts";

/** How long pg_dump waits for an app that has locked a table. */
const LOCK_WAIT_MS = 60_000;
const CONTENT_TYPE = "application/vnd.postgresql.dump";
/** Apps may connect again while others are disconnected. */
const SWAP_ATTEMPTS = 5;
const OBJECT_IN_USE = "55006";

type Deps = {
  adminUrl: string;
  programs: ReturnType<typeof createPostgresPrograms>;
  store: ObjectStore;
  log: Logger;
};

/**
 * Backups of the databases of postgres addons: what pg_dump writes in its custom format. A restore goes to another database,
 * which takes the place of the addon's once it is complete.
 */
export function createPostgresBackups({ adminUrl, programs, store, log }: Deps) {
  const alone = createKeyedMutex();
  let known: number | undefined;

  const serverVersion = () =>
    asAdmin(adminUrl, async (admin) => {
      const { rows } = await admin.query<{ number: string; text: string }>(
        "select current_setting('server_version_num') as number, current_setting('server_version') as text",
      );
      known = Math.floor(Number(rows[0]!.number) / 10_000);
      return { major: known, version: rows[0]!.text.split(" ")[0]! };
    });

  /**
   * Runs `work` with how a program connects to a database of an addon: as a role that can only become the addon's. The
   * administrator's must not be at hand where functions of users run, and apps may use up the addon's connections.
   */
  async function asCopier(
    serviceId: string,
    database: string,
    work: (login: { args: string[]; env: Record<string, string> }) => Promise<void>,
  ): Promise<void> {
    const owner = addonName(serviceId);
    const { copier } = copiesOf(serviceId);
    const password = randomBytes(24).toString("base64url");
    await asAdmin(adminUrl, (admin) =>
      // All or nothing: it is not there without the addon's own role, with which it is dropped.
      inTransaction(admin, [
        `do $$ begin
           if not exists (select from pg_roles where rolname = '${copier}') then create role "${copier}"; end if;
         end $$`,
        `alter role "${copier}" noinherit login password '${scramVerifier(password)}'`,
        `grant "${owner}" to "${copier}"`,
        `grant connect on database "${database}" to "${copier}"`,
        // Who drops a database ends its sessions.
        `grant "${copier}" to current_user`,
      ]),
    );
    const url = new URL(adminUrl);
    [url.username, url.password, url.pathname] = [copier, "", `/${database}`];
    const env = { PATH: process.env.PATH ?? "", PGPASSWORD: password, PGCONNECT_TIMEOUT: "10" };
    try {
      await work({ args: [`--dbname=${url}`, `--role=${owner}`, "--no-password"], env });
    } finally {
      await asAdmin(adminUrl, (admin) =>
        inTransaction(admin, [
          `revoke connect on database "${database}" from "${copier}"`,
          `drop role "${copier}"`,
        ]),
      ).catch((err) => log.warn({ err, serviceId }, "the role of a backup is left, and goes with the addon"));
    }
  }

  /** Has one database take the place of another, whose users are disconnected. */
  async function swap(admin: pg.Client, name: string, { restored, replaced }: ReturnType<typeof copiesOf>) {
    for (let attempt = 1; ; attempt++) {
      await admin.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", [name]);
      try {
        return await inTransaction(admin, [
          `alter database "${name}" rename to "${replaced}"`,
          `alter database "${restored}" rename to "${name}"`,
        ]);
      } catch (error) {
        if ((error as { code?: string }).code !== OBJECT_IN_USE || attempt === SWAP_ATTEMPTS) throw error;
      }
    }
  }

  return {
    ...createPostgresProofs({
      adminUrl,
      store,
      program: async () => programs.require((await serverVersion()).major),
    }),

    /** As in `AddonBackups`. What cannot be asked now is supported: an attempt says more. */
    async unsupported(): Promise<string | undefined> {
      const major = known ?? (await serverVersion().catch(() => undefined))?.major;
      return major === undefined ? undefined : programs.unsupported(major);
    },

    make: (serviceId: string, key: string, signal: AbortSignal) =>
      alone.run(serviceId, async () => {
        const { major, version } = await serverVersion();
        const { dump: file } = await programs.require(major);
        await asCopier(serviceId, addonName(serviceId), async ({ args, env }) => {
          const own = ["--format=custom", `--lock-wait-timeout=${LOCK_WAIT_MS}`];
          const program: ClientProgram = { file, args: [...args, ...own], env, signal };
          await store.put(key, Readable.from(outputOf(program)), CONTENT_TYPE);
        });
        return { version };
      }),

    restore: (serviceId: string, { key, foreign }: StoredBackup, signal: AbortSignal) =>
      alone.run(serviceId, async () => {
        const { restore: file } = await programs.require((await serverVersion()).major);
        const name = addonName(serviceId);
        const copies = copiesOf(serviceId);
        const { restored, replaced } = copies;
        const drop = (admin: pg.Client, database: string) =>
          admin.query(`drop database if exists "${database}" with (force)`);
        try {
          await asAdmin(adminUrl, async (admin) => {
            for (const left of [restored, replaced]) await drop(admin, left);
            await admin.query(`create database "${restored}" owner "${name}" template template0`);
            await closeToOthers(admin, restored);
          });
          await asCopier(serviceId, restored, async ({ args, env }) => {
            const program = {
              file,
              args: [...args, "--exit-on-error", ...(foreign ? WITHOUT_ROLES : [])],
              env,
              signal,
            };
            await feed(program, await store.get(key));
          });
          signal.throwIfAborted();
          await asAdmin(adminUrl, (admin) => swap(admin, name, copies));
        } finally {
          // What there is of the two: the next restore would drop them, and so does who removes the addon.
          await asAdmin(adminUrl, async (admin) => {
            for (const left of [restored, replaced]) await drop(admin, left);
          }).catch((err) =>
            log.warn({ err, serviceId }, "a database of a restore is left, and goes with the next"),
          );
        }
      }),
  };
}

async function inTransaction(admin: pg.Client, statements: string[]): Promise<void> {
  await admin.query("begin");
  try {
    for (const statement of statements) await admin.query(statement);
    await admin.query("commit");
  } catch (error) {
    await admin.query("rollback");
    throw error;
  }
}
