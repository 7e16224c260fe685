import { join } from "node:path";
import { createPool } from "../kit/postgres/db.ts";
import { requireSchema } from "../kit/postgres/migrate.ts";
import { type Done, runCommand } from "../kit/process/command.ts";
import { readConfig, url } from "../kit/process/config.ts";
import { createAccountLock } from "./accounts/account-lock.ts";
import { setAgreement } from "./accounts/agreement.ts";

const ACCOUNT = /^acc_[0-9a-z]{26}$/;
const USAGE = `npm run agreement -- ACCOUNT on|off

Puts an account (acc_…) under an agreement with you: it is on the enterprise plan, and buys nothing itself. "off" ends
that. DATABASE_URL is the one of billing.
`;

type Change = { accountId: string; agreed: boolean };

function parse([accountId = "", state = "", ...more]: string[]): Change | undefined {
  if (!ACCOUNT.test(accountId) || !["on", "off"].includes(state) || more.length > 0) return undefined;
  return { accountId, agreed: state === "on" };
}

/** Runs the command. Returns what it prints. */
async function run({ accountId, agreed }: Change): Promise<string> {
  const { databaseUrl } = readConfig(process.env, {
    databaseUrl: url("DATABASE_URL", ["postgres", "postgresql"]),
  });
  const pool = createPool(databaseUrl, { name: "billing-agreement" });
  const locks = createPool(databaseUrl, { name: "billing-agreement locks", max: 1 });
  try {
    await requireSchema(pool, join(import.meta.dirname, "migrations"));
    const changed = await setAgreement({ pool, lock: createAccountLock(locks) }, accountId, agreed);
    const state = agreed ? "billed by agreement, on the enterprise plan" : "not billed by agreement";
    return `${accountId} is ${changed ? "now" : "already"} ${state}`;
  } finally {
    await Promise.all([pool.end(), locks.end()]);
  }
}

async function main(): Promise<Done> {
  const change = parse(process.argv.slice(2));
  return change ? { output: `${await run(change)}\n`, exitCode: 0 } : { output: USAGE, exitCode: 2 };
}

if (import.meta.main) await runCommand(main);
