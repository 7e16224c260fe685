import { join } from "node:path";
import { createPool, type Pool, transaction } from "../kit/postgres/db.ts";
import { requireSchema } from "../kit/postgres/migrate.ts";
import { type Done, runCommand } from "../kit/process/command.ts";
import { readConfig, url } from "../kit/process/config.ts";
import { decideReview, listReviews, type Review } from "./cancellation/sql.ts";
import { reportRefund } from "./cancellation/steps/report-refund.ts";

const USAGE = "Usage: npm run refunds -- list | release SUBSCRIPTION | deny SUBSCRIPTION\n";

/** Lists the refunds that wait for staff, releases one, or denies it (docs/billing.md#refunds). */
export async function refunds(pool: Pool, [command, subscription, ...more]: string[]): Promise<Done> {
  if (command === "list" && subscription === undefined)
    return { output: toTable(await listReviews(pool)), exitCode: 0 };
  const step = command === "release" ? "ended" : command === "deny" ? "denied" : undefined;
  if (!step || !subscription || more.length > 0) return { output: USAGE, exitCode: 2 };
  const settled = await transaction(pool, async (tx) => {
    const found = await decideReview(tx, subscription, step);
    if (found && step === "denied") await reportRefund(tx, found, "denied");
    return found !== undefined;
  });
  if (!settled) return { output: `No refund of ${subscription} is under review.\n`, exitCode: 1 };
  const output =
    step === "ended"
      ? `The refund of ${subscription} will be made as soon as billing is running.\n`
      : `The refund of ${subscription} is denied. The owners of the account are notified.\n`;
  return { output, exitCode: 0 };
}

function toTable(reviews: Review[]): string {
  if (reviews.length === 0) return "No refund is under review.\n";
  const rows = reviews.map(({ subscriptionId, accountId, endedAt, cashCents, creditCents }) => [
    subscriptionId,
    accountId,
    endedAt,
    `$${(cashCents / 100).toFixed(2)}`,
    `$${(creditCents / 100).toFixed(2)}`,
  ]);
  const table = [["subscription", "account", "canceled", "cash", "to the balance"], ...rows];
  const widths = table[0]!.map((_, column) => Math.max(...table.map((row) => row[column]!.length)));
  const line = (row: string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join("  ")
      .trimEnd();
  return `${table.map(line).join("\n")}\n`;
}

async function main(): Promise<Done> {
  const config = readConfig(process.env, { databaseUrl: url("DATABASE_URL", ["postgres", "postgresql"]) });
  const pool = createPool(config.databaseUrl, { name: "billing-refunds" });
  try {
    await requireSchema(pool, join(import.meta.dirname, "migrations"));
    return await refunds(pool, process.argv.slice(2));
  } finally {
    await pool.end();
  }
}

if (import.meta.main) await runCommand(main);
