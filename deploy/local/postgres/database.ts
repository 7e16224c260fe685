import {
  checkEncryptionKeys,
  ensureRole,
  prepareDatabase as provisionDatabase,
  WrongKey,
  withClient,
} from "../../database/provision.ts";
import { type Secrets, secretsFile } from "../data/secrets.ts";
import { StartFailure } from "../terminal/failure.ts";
import type { PostgresServer } from "./postgres.ts";

/** The role under which the deployer makes databases for addons: it may create them, and nothing else. */
export const addonRole = "berth_addons";

/** The database that holds a schema for each service. */
export const database = "berth";

/**
 * Bring roles, database and schemas into the shape the services expect. Each role owns the schema of its name
 * and sees nothing else. Everything here can be done again, so an interrupted start is made good by the next.
 *
 * @throws StartFailure `wrongKey` when the encryption keys are not those this database was written with.
 */
export async function prepareDatabase(
  server: PostgresServer,
  roles: string[],
  secrets: Secrets,
  data: string,
): Promise<void> {
  const logins = roles.map((role) => ({
    name: role,
    role,
    password: secrets.databasePasswords[role] as string,
  }));
  await withClient(server.adminUrl, async (client) => {
    await ensureRole(client, addonRole, secrets.databasePasswords[addonRole] as string);
    await client.query(`ALTER ROLE ${addonRole} CREATEDB CREATEROLE`);
    // What it creates for an addon, it may also hand over to that addon's role.
    await client.query(`ALTER ROLE ${addonRole} SET createrole_self_grant = 'set, inherit'`);
    await client.query("REVOKE ALL ON DATABASE postgres FROM PUBLIC");
    await client.query(`GRANT CONNECT ON DATABASE postgres TO ${addonRole}`);
  });
  await provisionDatabase(server.adminUrl, database, logins);
  await checkKeys(server.url(database), secrets, data);
}

async function checkKeys(url: string, secrets: Secrets, data: string): Promise<void> {
  try {
    await checkEncryptionKeys(url, "launcher", secrets.encryptionKeys);
  } catch (cause) {
    if (!(cause instanceof WrongKey)) throw cause;
    throw new StartFailure(
      "wrongKey",
      `The encryption key in ${secretsFile(data)} is not the one this data was encrypted with. ` +
        "Put the former key back, or start anew with --reset.",
      { cause },
    );
  }
}
