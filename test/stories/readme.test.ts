import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { exampleFiles } from "../support/archives.ts";
import { openMachine } from "../support/cli.ts";
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
  for (const name of ["test", "node_modules"]) await symlink(join(root, name), join(folder, name));
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

test("the README's first deploy is three commands, which the start prints, and they and its others do what they say", async () => {
  const indented = await eventually(
    "the commands are printed",
    async () => /in this folder:\n\n(.*)\n\nCtrl-C/s.exec(platform.output())?.[1],
  );
  const printed = indented.replace(/^ {2}/gm, "");
  const [first, ...more] = await commandsOf("README.md");
  expect(printed.replaceAll(`${platform.data}/local.json`, ".berth/local.json")).toBe(first!.trimEnd());
  expect(first!.trim().split("\n")).toHaveLength(3);
  const config = await mkdtemp(join(tmpdir(), "berth-config-"));
  // npx takes a second to find the command: three times show that it does.
  const found = `npx() { ${join(root, "node_modules/.bin")}/"$@"; }`;
  const output = await paste([first, found, ...more].join("\n"), { XDG_CONFIG_HOME: config });
  await rm(config, { recursive: true });
  const { origin } = new URL(platform.checkoutUrl!);
  for (const said of [
    "http://web-production-shop.localhost:",
    "web      web   ",
    "listening on port",
    "[]\n",
    "projected $",
    `"checkoutUrl":"${origin}/c/cs_test_`,
  ])
    expect(output).toContain(said);
});

test("a gateway that is killed while berth deploys and follows logs ends neither", async () => {
  const machine = openMachine();
  try {
    await machine.must(["login", "--local", join(platform.data, "local.json")]);
    await machine.must(["init", "killed"]);
    machine.write({
      "package.json": '{"scripts":{"build":"sleep 3","start":"node server.js"}}',
      "server.js": `let n = 0; setInterval(() => console.log("tick", n++), 100);
        require("node:http").createServer((_, response) => response.end()).listen(process.env.PORT);`,
    });
    const up = machine.start(["up"]);
    await up.said(/Detected a Node/);
    await platform.kill("gateway");
    const { code, stdout, stderr } = await up.ended;
    expect([code, stdout, stderr]).toEqual([
      0,
      expect.stringMatching(/^http/),
      expect.stringContaining("v1 healthy"),
    ]);

    const logs = machine.start(["logs", "-f", "-n", "1", "--json"]);
    const ticks = async () =>
      [...(await logs.said(/tick/)).input!.matchAll(/tick (\d+)/g)].map(([, n]) => Number(n));
    await eventually("lines arrive", async () => (await ticks()).length > 5);
    await platform.kill("gateway");
    const before = (await ticks()).at(-1)!;
    await eventually("lines arrive again", async () => (await ticks()).at(-1)! > before + 10);
    logs.child.kill("SIGINT");
    expect((await logs.ended).code).toBe(130);
    const all = await ticks();
    expect(all).toEqual(all.map((_, n) => all[0]! + n));
  } finally {
    await machine.berth(["projects", "delete", "killed", "--yes"]);
    machine.remove();
  }
});

test("the first deploy with curl and the tour, pasted line by line, do what they say", async () => {
  const commit = git.create("yours", exampleFiles("node"));
  const tour = [...(await commandsOf("docs/curl.md")), ...(await commandsOf("docs/tour.md"))].join("\n");
  const output = await paste(tour, { REPOSITORY: git.url("yours") });
  const all = "API_KEY, DATABASE_URL, GREETING, HOME, LANG, PATH, PLATFORM_VARIABLES_REVISION, PORT, PWD";
  for (const said of [
    "Hello! Set the variable GREETING",
    '"name":"API_KEY","sensitive":true,"source":"service"',
    "Hello from production",
    "Changed while it runs",
    "2 applied",
    "1 applied",
    "listening on port",
    "variable.create DATABASE_URL",
    `This version, the third, received: ${all}`,
    `\nI received: ${all}`,
    "Ada editor",
    `"commit":"${commit}"`,
  ])
    expect(output).toContain(said);
});

test("the tour's wait ends when a deployment failed, and says why", async () => {
  const [helpers] = await commandsOf("docs/curl.md");
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

test("the README's MCP client gets access to the account and the role that its user chooses", async () => {
  const text = await readFile(join(root, "README.md"), "utf8");
  const [, section = ""] = text.split("## Connect an MCP client\n");
  const [, command = ""] = /^```\n(.*?)^```$/ms.exec(section) ?? [];
  const { accountId, baseUrl } = platform;
  const env = { PATH: process.env.PATH, HOME: process.env.HOME };
  expect(command).toContain(" http://127.0.0.1:4000/v1\n");
  const here = command.replace("http://127.0.0.1:4000/v1", baseUrl);
  const client = spawn("bash", ["-euo", "pipefail", "-c", here], { cwd: root, env });
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
  // What the page has chosen is what the README shows.
  const [, access] = /^(Access as reader to the account \S+)$/m.exec(output) ?? [];
  expect(section).toContain(access);
});
