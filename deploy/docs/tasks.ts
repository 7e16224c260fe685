import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as gateway from "../../gateway/tasks.ts";
import * as billing from "../../services/billing/tasks.ts";
import * as deployer from "../../services/deployer/tasks.ts";
import * as identity from "../../services/identity/tasks.ts";
import * as shared from "../../services/kit/tasks/shared-tasks.ts";
import type { Task } from "../../services/kit/tasks/task.ts";
import * as notifications from "../../services/notifications/tasks.ts";
import * as variables from "../../services/variables/tasks.ts";

const PAGE = "tasks";
const file = join(import.meta.dirname, "../../docs", `${PAGE}.md`);
/** The head of the table, which ends the page. */
const HEAD = "|---|---|---|---|\n";

/** Returns the page with a table of all declared tasks. */
function withTable(text: string): string {
  const rows = Object.entries({
    shared,
    identity,
    variables,
    notifications,
    deployer,
    billing,
    gateway,
  }).flatMap(([process, declared]) =>
    Object.values(declared)
      .filter(isTask)
      .map((task) => toRow(task, process)),
  );
  return `${text.slice(0, text.indexOf(HEAD))}${HEAD}${rows.join("\n")}\n`;
}

function isTask(declared: unknown): declared is Task {
  return typeof declared === "object" && declared !== null && "everyMs" in declared;
}

function toRow({ name, does, everyMs, where }: Task, process: string): string {
  return `| \`${name}\` | ${where ?? process} | ${does} | ${toPause(everyMs)} |`;
}

function toPause(ms: number): string {
  if (ms >= 3_600_000) return `${ms / 3_600_000} h`;
  return ms >= 60_000 ? `${ms / 60_000} min` : `${ms / 1_000} s`;
}

const text = await readFile(file, "utf8");
const fresh = withTable(text);
if (!process.argv.includes("--check")) await writeFile(file, fresh);
else if (fresh !== text) {
  process.stderr.write("docs: the table of background tasks is stale: run `npm run generate`\n");
  process.exitCode = 1;
}
