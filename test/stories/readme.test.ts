import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { open } from "../support/apps.ts";
import { exampleFiles } from "../support/archives.ts";
import { type Launched, launch } from "../support/launched.ts";
import { consent } from "../support/oauth/application.ts";
import { type GitServer, startGitServer } from "../support/servers/git-server.ts";

const root = resolve(import.meta.dirname, "../..");
let platform: Launched;
let git: GitServer;

beforeAll(async () => {
  [platform, git] = await Promise.all([launch(), startGitServer()]);
});

afterAll(async () => {
  await platform?.stop();
  await git?.close();
});

/** Runs lines in a shell that stops at the first that fails, in a folder that looks like the project's. */
async function paste(lines: string, more: Record<string, string> = {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "berth-paste-"));
  await symlink(platform.data, join(folder, ".berth"));
  await symlink(join(root, "test"), join(folder, "test"));
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, TMPDIR: folder, ...more };
  const options = { cwd: folder, env, timeout: 120_000 };
  try {
    return (await promisify(execFile)("bash", ["-euo", "pipefail", "-c", lines], options)).stdout;
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** The shell commands of a page. */
async function commandsOf(page: string): Promise<string[]> {
  const text = await readFile(join(root, page), "utf8");
  return [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map((match) => match[1]!);
}

test("the README's first deploy and the tour, pasted line by line, do what they say", async () => {
  const tour = [...(await commandsOf("README.md")), ...(await commandsOf("docs/tour.md"))].join("");
  const commit = git.create("yours", exampleFiles("node"));
  const output = await paste(tour, { REPOSITORY: git.url("yours") });
  for (const said of [
    "Hello! Set the variable GREETING",
    '"projectedNetUsd"',
    "/c/cs_test_",
    '"name":"API_KEY","sensitive":true,"source":"service"',
    "Hello from production",
    "Changed while it runs",
    "2 applied",
    "1 applied",
    "listening on port",
    "variable.create DATABASE_URL",
    "Ada editor",
    `"commit":"${commit}"`,
  ])
    expect(output).toContain(said);
});

test("the tour's wait ends when a deployment failed, and says why", async () => {
  const [helpers] = await commandsOf("README.md");
  const output = await paste(`${helpers}
    P=$A/projects/$(api POST $A/projects '{"name":"fails"}' | get .id)
    E=$P/environments/$(api POST $P/environments '{"name":"production"}' | get .id)
    api POST $E/services '{"name":"web","type":"web"}'
    api POST $E/services/web/deploy '{"image":"nginx:1.27"}'
    ready $E/services/web/deployments/1 || echo "It ended with $?"`);
  expect(output).toContain('"status":"failed"');
  expect(output).toContain('"message":"The image nginx:1.27 needs a cluster');
  expect(output).toContain("It ended with 1");
});

test("the three commands that the start prints deploy the example app", async () => {
  const printed = platform.output();
  const commands = printed.slice(printed.indexOf("in this folder:\n") + 16, printed.indexOf("and open "));
  const url = /and open (\S+)/.exec(printed)![1]!;
  const output = await paste(commands);
  expect(output).toMatch(/"version":1,.*"status":"queued"/);
  await eventually("the app answers", async () => (await open(url)).body.includes("I received"));
});

test("the README's MCP client gets access to the account and the role that its user chooses", async () => {
  const text = await readFile(join(root, "README.md"), "utf8");
  const [, section = ""] = text.split("## Connect an MCP client\n");
  const [, command = ""] = /^```\n(.*?)^```$/ms.exec(section) ?? [];
  const { accountId, baseUrl } = platform;
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, BASE: baseUrl };
  const client = spawn("bash", ["-euo", "pipefail", "-c", command], { cwd: root, env });
  let output = "";
  for (const stream of [client.stdout, client.stderr])
    stream.on("data", (chunk) => {
      output += chunk;
    });
  const ended = once(client, "close");
  const [, url] = await eventually("the client opens the browser", async () => {
    if (client.exitCode !== null) throw new Error(output);
    return /^Open in a browser: (\S+)\n/m.exec(output);
  });
  const back = await consent(platform.request, url!, { accountId, role: "reader" });
  expect(await (await fetch(back)).text()).toBe("You can close this window.\n");
  expect(await ended).toEqual([0, null]);
  expect(output).toMatch(/^Access as reader to the account \S+$/m);
});
