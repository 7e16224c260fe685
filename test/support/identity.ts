import { fields } from "../../services/identity/config.ts";
import { start } from "../../services/identity/main.ts";
import { makeToken } from "../../services/kit/crypto/bearer-token.ts";
import { createLog } from "../../services/kit/log.ts";
import { readConfig } from "../../services/kit/process/config.ts";
import { testKeys } from "../../services/kit/testing/testing.ts";

/** Starts a real identity service with one owner, on a test's database and NATS server; returns the owner's token too. */
export async function startIdentity(servers: {
  databaseUrl: string;
  natsUrl: string;
  publicOrigin?: string | undefined;
  /** Further environment variables. */
  env?: Record<string, string> | undefined;
  /** The clock of expiry. */
  now?: (() => number) | undefined;
  /** Takes what it logs. */
  logLines?: string[] | undefined;
  /** Reads client id metadata documents. */
  fetchDocument?: Parameters<typeof start>[3];
}) {
  const ownerToken = makeToken("pat");
  const env = {
    DATABASE_URL: servers.databaseUrl,
    NATS_URL: servers.natsUrl,
    INTERNAL_KEYS: testKeys.map((key) => key.toString("base64")).join(),
    LOG_LEVEL: "silent",
    BOOTSTRAP_OWNER_EMAIL: "owner@example.com",
    BOOTSTRAP_OWNER_TOKEN: ownerToken,
    ...(servers.publicOrigin && { PUBLIC_ORIGIN: servers.publicOrigin }),
    ...servers.env,
  };
  const { now, logLines, fetchDocument } = servers;
  const log = logLines
    ? createLog("identity", "debug", (line) => void logLines.push(line))
    : createLog("identity", "silent");
  const identity = await start(readConfig(env, fields), log, now, fetchDocument);
  return { ...identity, ownerToken };
}
