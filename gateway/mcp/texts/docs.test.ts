import { join } from "node:path";
import { expect, test } from "vitest";
import { readDocs } from "./docs.ts";

const docs = await readDocs(join(import.meta.dirname, "../../../docs"));

test.each([
  ["how do I roll back a deployment", "deployments"],
  ["connection of a variable to a postgres addon", "variables"],
  ["what tools never do", "mcp"],
  ["idempotency key", "conventions"],
  ["invite a member by e-mail", "identity"],
])("a question leads to its page: %s", (query, page) => {
  const found = docs.search(query);
  expect(found.map((section) => section.page)).toContain(page);
  expect(found.length).toBeLessThanOrEqual(5);
});

test("a query without known words finds nothing, whatever it holds", () => {
  for (const query of ["", "xyzzy-qwrty", "\u0000\ud800", "()".repeat(150)])
    expect(docs.search(query)).toEqual([]);
});
