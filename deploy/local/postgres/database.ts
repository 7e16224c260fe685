import {
  checkEncryptionKeys,
  ensureRole,
  prepareDatabase as provisionDatabase,
  WrongKey,
  withClient,
} from "../../database/provision.ts";
import { type Secrets, secretsFile } from "../data/secrets.ts";
import { StartFailure } from "../failure.ts";
import type { PostgresServer } from "./postgres.ts";

/** The deployer's role for making addon databases: it may create roles and databases, and nothing else. */
export const addonRole = "berth_addons";

/** The database that holds a schema for each service. */
export const database = "berth";

/**
 * Makes the roles, database and schemas that the services expect. Each role owns the schema of its name and sees
 * nothing else. All of it is idempotent, so the next start completes an interrupted one.
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
    // It may make an addon's own role the owner of what it creates.
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
      `The encryption key in ${secretsFile(data)} is not the key with which this data was encrypted. ` +
        "Restore the previous key, or start over with --reset, which deletes all data.",
      { cause },
    );
  }
}
