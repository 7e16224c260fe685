import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const billing = join(import.meta.dirname, "../../../../services/billing");

/** Returns the lines of files but tests', each chain of members on one line. */
const read = (root: string, pattern: string) =>
  globSync(pattern, { cwd: root })
    .filter((path) => !/(test|testing)\.ts$/.test(path))
    .flatMap((path) => readFileSync(join(root, path), "utf8").split("\n"))
    .map((line) => line.trim())
    .join("\n")
    .replaceAll("\n.", ".");

test("each call of the SDK in billing is tried here", () => {
  const tried = read(import.meta.dirname, "calls-*.ts");
  const made = [...read(billing, "**/*.ts").matchAll(/\bstripe\.([\w.]+)\(/g)].map(([, call]) => call!);
  // No request is made to read what Stripe sent.
  const requests = [...new Set(made)].filter((call) => !call.startsWith("webhooks."));
  expect(requests.length).toBeGreaterThan(10);
  const words = new Set(tried.match(/[\w.]+/g));
  expect(requests.filter((call) => !words.has(call))).toEqual([]);
});
