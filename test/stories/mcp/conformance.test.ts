import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startWorld, type World } from "../../support/world.ts";

const SUITE = join(import.meta.dirname, "../../../node_modules/.bin/conformance");

const OLDER = ["server-initialize", "ping", "tools-list", "resources-list", "prompts-list"];

/**
 * The scenarios of the protocol's conformance suite that say something about Berth. The others call tools, prompts and
 * resources of a server made for the suite (`test_simple_text`), or want what the server does not declare: sessions,
 * completions, logging, tasks. `dns-rebinding-protection` is for servers on a user's machine without authentication: here, a
 * page that reaches the server by another name has no token.
 */
const SCENARIOS: Record<string, string[]> = {
  "2026-07-28": [
    ...["server-stateless", "http-header-validation", "caching", "server-sse-multiple-streams"],
    ...["tools-list", "resources-list", "prompts-list", "sep-2164-resource-not-found"],
    "input-required-result-unsupported-methods",
  ],
  "2025-11-25": OLDER,
  "2025-06-18": OLDER,
};

let world: World;
let door: http.Server;
let url: string;

beforeAll(async () => {
  world = await startWorld();
  // The suite sends no token.
  door = http.createServer((request, response) => {
    const headers = { ...request.headers, authorization: `Bearer ${world.ownerToken}` };
    const passing = http.request(world.origin + request.url, { method: request.method!, headers });
    passing.on("response", (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    passing.on("error", () => response.destroy());
    request.pipe(passing);
  });
  door.listen(0, "127.0.0.1");
  await once(door, "listening");
  url = `http://127.0.0.1:${(door.address() as AddressInfo).port}/mcp`;
});
afterAll(async () => {
  door?.close();
  await world?.stop();
});

type Check = { id: string; status: string; errorMessage?: string };

/** Runs all of the suite for a revision; returns the checks by scenario. */
async function run(revision: string): Promise<Map<string, Check[]>> {
  const dir = await mkdtemp(join(tmpdir(), "berth-conformance-"));
  try {
    const args = ["server", "--url", url, "--suite", "all", "--spec-version", revision, "-o", dir];
    // It exits with 1, as scenarios fail that do not apply.
    await new Promise((resolve) => execFile(process.execPath, [SUITE, ...args], resolve));
    const folders = await readdir(dir);
    const read = async (folder: string) =>
      [
        // server-NAME-TIME
        folder.replace(/^server-/, "").replace(/-\d{4}-\d\d-\d\dT.*$/, ""),
        JSON.parse(await readFile(join(dir, folder, "checks.json"), "utf8")) as Check[],
      ] as const;
    return new Map(await Promise.all(folders.map(read)));
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

test.each(Object.keys(SCENARIOS))("the conformance suite finds nothing in revision %s", async (revision) => {
  const checks = await run(revision);
  const wrong = SCENARIOS[revision]!.flatMap((scenario) => {
    const found = checks.get(scenario) ?? [{ id: "is missing", status: "FAILURE" }];
    return found
      .filter(({ status }) => !["SUCCESS", "INFO", "SKIPPED"].includes(status))
      .filter(({ errorMessage }) => !/^Not testable: server does not list/.test(errorMessage ?? ""))
      .map(({ id, errorMessage }) => `${scenario}: ${id}: ${errorMessage}`);
  });
  expect(wrong).toEqual([]);
});
