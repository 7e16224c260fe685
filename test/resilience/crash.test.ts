import { execFileSync } from "node:child_process";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { sample } from "../../services/kit/testing/sample.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { type Deployment, open } from "../support/apps.ts";
import { end, type Launched, launch } from "../support/launched.ts";

let platform: Launched;
let P: string;
let E: string;

beforeAll(async () => {
  platform = await launch();
  const A = `/accounts/${platform.accountId}`;
  const project = await platform.request("POST", `${A}/projects`, { name: "crash" });
  P = `${A}/projects/${(project.body as { id: string }).id}`;
  const environment = await platform.request("POST", `${P}/environments`, { name: "production" });
  E = `${P}/environments/${(environment.body as { id: string }).id}`;
});

afterAll(async () => {
  await platform.stop();
});

const names = async (scope: string): Promise<string[]> => {
  const found: string[] = [];
  let cursor = "";
  do {
    const { body } = await platform.requestUntilAnswered(
      "GET",
      `${scope}/variables?limit=100&cursor=${encodeURIComponent(cursor)}`,
    );
    const page = body as { data: { name: string }[]; page: { nextCursor: string } };
    found.push(...page.data.map((variable) => variable.name));
    cursor = page.page.nextCursor;
  } while (cursor !== "");
  return found;
};

/** Returns an app whose build takes 3 s, and which then answers `ready`. */
async function slowApp(): Promise<Buffer> {
  const dir = await mkdtemp(join(tmpdir(), "berth-slow-"));
  const scripts = { preinstall: "node -e 'setTimeout(() => {}, 3000)'", start: "node server.js" };
  await writeFile(
    join(dir, "package.json"),
    JSON.stringify({ name: "slow", version: "1.0.0", scripts, dependencies: { dep: "file:./dep" } }),
  );
  execFileSync("mkdir", [join(dir, "dep")]);
  await writeFile(join(dir, "dep", "package.json"), JSON.stringify({ name: "dep", version: "1.0.0" }));
  await writeFile(
    join(dir, "server.js"),
    "require('node:http').createServer((q, s) => s.end('ready')).listen(process.env.PORT)",
  );
  const archive = execFileSync("tar", ["-cz", "-C", dir, "."]);
  await rm(dir, { recursive: true });
  return archive;
}

type Target = { uploadUrl: string; contentType: string; archiveRef: string };

async function service(name: string): Promise<string> {
  const { status } = await platform.requestUntilAnswered("POST", `${E}/services`, { name, type: "web" });
  expect([201, 409]).toContain(status);
  return `${E}/services/${name}`;
}

async function upload(S: string, archive: Buffer): Promise<string> {
  const { body } = await platform.requestUntilAnswered("POST", `${S}/uploads`, {});
  const target = body as Target;
  const headers = { "content-type": target.contentType };
  const put = await fetch(target.uploadUrl, { method: "PUT", headers, body: new Uint8Array(archive) });
  expect(put.ok).toBe(true);
  return target.archiveRef;
}

const deployment = async (S: string, version: number) =>
  (await platform.requestUntilAnswered("GET", `${S}/deployments/${version}`)).body as Deployment;

test("a process killed during a batch leaves all of it or nothing", async () => {
  for (const [round, delay] of sample("kills during a batch", [0, 5, 15, 30, 60], 2).entries()) {
    const set = Array.from({ length: 500 }, (_, i) => ({ name: `R${round}_${i}`, value: "x".repeat(100) }));
    const E2 = await platform.requestUntilAnswered("POST", `${P}/environments`, { name: `batch-${round}` });
    const scope = `${P}/environments/${(E2.body as { id: string }).id}`;
    await platform.requestUntilAnswered("GET", `${scope}/variables`);
    const answered = platform.request("POST", `${scope}/variables/batch`, { set }).then(
      (answer) => answer.status,
      () => 0,
    );
    await new Promise((resolve) => setTimeout(resolve, delay));
    await platform.kill("services/variables");
    const status = await answered;
    const left = await names(scope);
    expect([0, 500]).toContain(left.length);
    if (status === 200) expect(left).toHaveLength(500);
  }
});

test("an upload cut by a kill leaves nothing, and the next one works", async () => {
  const S = await service("upload");
  const { body } = await platform.requestUntilAnswered("POST", `${S}/uploads`, {});
  const target = body as Target;
  const sent = http.request(target.uploadUrl, {
    method: "PUT",
    headers: { "content-type": target.contentType },
  });
  const over = new Promise<number>((resolve) => {
    sent.on("response", (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on("error", () => resolve(0));
  });
  sent.write(Buffer.alloc(256 * 1024));
  await eventually(
    "bytes of the upload are on the disk",
    async () => (await bytesOf("deployer")) >= 128 * 1024,
  );
  await platform.kill("services/deployer");
  sent.end();
  expect(await over).not.toBe(200);
  const refused = await platform.requestUntilAnswered("POST", `${S}/deploy-from-archive`, {
    archiveRef: target.archiveRef,
  });
  expect(refused.status).toBe(422);
  expect(JSON.stringify(refused.body)).toContain("archive_not_uploaded");
  await eventually("nothing of the upload is left", async () => (await bytesOf("deployer")) < 128 * 1024);
  await upload(S, await slowApp());
});

/** Returns the bytes of all files in a folder of the data folder. */
async function bytesOf(folder: string): Promise<number> {
  const out = execFileSync("du", ["-sb", join(platform.data, folder)], { encoding: "utf8" });
  const [bytes] = out.split("\t");
  const dirs = (await readdir(join(platform.data, folder), { recursive: true, withFileTypes: true })).filter(
    (d) => d.isDirectory(),
  );
  return Number(bytes) - (dirs.length + 1) * 4096;
}

test("a deployer killed during a build brings the deployment to its end, once", async () => {
  const S = await service("build");
  const archiveRef = await upload(S, await slowApp());
  const accepted = await platform.requestUntilAnswered("POST", `${S}/deploy-from-archive`, { archiveRef });
  expect(accepted.status).toBe(202);
  await eventually("it is building", async () => (await deployment(S, 1)).status === "building");
  await platform.kill("services/deployer");
  const ended = await eventually("it is healthy", async () => {
    const now = await deployment(S, 1);
    return (now.healthyAt !== undefined || now.finishedAt !== undefined) && now;
  });
  expect(ended).toMatchObject({ version: 1, status: "applied", errors: [] });
  const { body } = await platform.requestUntilAnswered("GET", S);
  expect(await open((body as { url: string }).url)).toEqual({ status: 200, body: "ready" });
  const history = await platform.requestUntilAnswered("GET", `${S}/deployments`);
  expect((history.body as { data: unknown[] }).data).toHaveLength(1);
});

test("work under way when the launcher was killed is finished after the next start", async () => {
  const S = await service("restart");
  const archiveRef = await upload(S, await slowApp());
  expect(
    (await platform.requestUntilAnswered("POST", `${S}/deploy-from-archive`, { archiveRef })).status,
  ).toBe(202);
  await end(platform.child, "SIGKILL");
  platform = await launch({ dir: platform.data });
  await eventually("it is healthy", async () => (await deployment(S, 1)).healthyAt !== undefined);
  const { body } = await platform.requestUntilAnswered("GET", S);
  expect((await open((body as { url: string }).url)).body).toBe("ready");
});

test("gateway and identity are restarted when they were killed", async () => {
  for (const program of ["gateway", "services/identity"]) {
    await platform.kill(program);
    expect((await platform.requestUntilAnswered("GET", "/me")).status).toBe(200);
  }
});
