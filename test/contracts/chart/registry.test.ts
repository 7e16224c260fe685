import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import type { V1Secret } from "@kubernetes/client-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPullLogins, pullKeys } from "../../../services/deployer/images/pulls/logins.ts";
import { nodeLogins } from "../../../services/deployer/images/pulls/node-logins.ts";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { findRegistry } from "../../support/servers/registry.ts";
import {
  configOf,
  GENERATED,
  helmProgram,
  ofKind,
  podsOf,
  readDeployerConfig,
  render,
  renderInstall,
} from "./render.ts";

// The two servers of the bundled registry and the door before that of pulls, as the chart configures them, on this
// machine.

const program = helmProgram === undefined ? undefined : await findRegistry();
if (helmProgram === undefined) console.log("The bundled registry is not tested: there is no helm.");

const DOOR = resolve(import.meta.dirname, "../../../services/deployer/images/pulls/main.ts");
const MANIFEST = "application/vnd.oci.image.manifest.v1+json";

describe.skipIf(!program)("the bundled registry", () => {
  let folder: string;
  let logins: { push: string; nodes: string };
  let builds: string;
  let pulls: string;
  let script: ChildProcess;
  let reader: ChildProcess;
  let door: ChildProcess;
  let doorEnv: Record<string, string>;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-registry-"));
    for (const name of ["bin", "data"]) await mkdir(join(folder, name));
    await symlink(program!, join(folder, "bin", "registry"));
    const manifests = await renderInstall("bundled", GENERATED);
    const config = configOf(manifests, "berth-registry");
    const secret = ofKind<V1Secret>(manifests, "Secret").find(
      ({ metadata }) => metadata!.name === "berth-registry",
    );
    const text = (key: string) => Buffer.from(secret!.data![key]!, "base64").toString();
    logins = { push: `berth:${text("password")}`, nodes: `nodes:${text("pull-password")}` };
    await writeFile(join(folder, "htpasswd"), text("htpasswd"));
    const [port, pullPort, readerPort] = [await freePort(), await freePort(), await freePort()];
    [builds, pulls] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${pullPort}`];
    const { env } = podsOf(manifests)
      .find(({ name }) => name === "StatefulSet/berth-registry")!
      .spec.containers.find(({ name }) => name === "door")!;
    const given = env!.map(({ name, value, valueFrom }) => [
      name,
      value ?? text(valueFrom!.secretKeyRef!.key),
    ]);
    doorEnv = { ...Object.fromEntries(given), PORT: String(pullPort), REGISTRY_PORT: String(readerPort) };
    for (const [name, content] of Object.entries(config))
      await writeFile(
        join(folder, name),
        content
          .replaceAll("/tmp/", `${folder}/`)
          .replace("/data", join(folder, "data"))
          .replace("/etc/berth-login", folder)
          .replace(":5000", `127.0.0.1:${port}`)
          .replace(":5002", `:${readerPort}`),
      );
    const PATH = `${join(folder, "bin")}:${process.env.PATH}`;
    const run = (program: string, ...args: string[]) =>
      spawn(program, args, {
        cwd: folder,
        env: { PATH, OTEL_TRACES_EXPORTER: "none", ...doorEnv },
        stdio: "ignore",
      });
    script = run("sh", "registry.sh", "config.yml");
    reader = run("registry", "serve", "pulls.yml");
    door = run(process.execPath, DOOR);
    for (const at of [builds, `${pulls}/readyz`])
      await eventually("it answers", () =>
        fetch(at).then(
          ({ ok }) => ok,
          () => false,
        ),
      );
  });

  afterAll(async () => {
    for (const one of [door, script, reader])
      if (one && one.exitCode === null) {
        const ended = new Promise((done) => one.once("exit", done));
        one.kill("SIGTERM");
        await ended;
      }
    if (folder) await rm(folder, { recursive: true, force: true });
  });

  const basic = (login: string) => `Basic ${Buffer.from(login).toString("base64")}`;

  async function send(url: string, method = "GET", body?: Buffer, type = "application/octet-stream") {
    const authorization = basic(url.startsWith(pulls) ? logins.nodes : logins.push);
    const headers = { authorization, accept: MANIFEST, "content-type": type };
    const answer = await fetch(url, { method, headers, ...(body && { body: new Uint8Array(body) }) });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, text };
  }

  async function pushBlob(repository: string, content: Buffer) {
    const begun = await send(`${builds}/v2/${repository}/blobs/uploads/`, "POST");
    const url = new URL(begun.headers.get("location")!, builds);
    const digest = `sha256:${createHash("sha256").update(content).digest("hex")}`;
    url.searchParams.set("digest", digest);
    expect((await send(url.href, "PUT", content)).status).toBe(201);
    return { digest, size: content.length };
  }

  /** Pushes an image with a layer of 256 KiB. Returns the paths of its parts; the first is its manifest's. */
  async function push(tag: string, repository = "apps"): Promise<[string, ...string[]]> {
    const config = await pushBlob(repository, Buffer.from(JSON.stringify({ config: { Labels: { tag } } })));
    const layer = await pushBlob(repository, randomBytes(256 * 1024));
    const manifest = {
      schemaVersion: 2,
      mediaType: MANIFEST,
      config: { ...config, mediaType: "application/vnd.oci.image.config.v1+json" },
      layers: [{ ...layer, mediaType: "application/vnd.oci.image.layer.v1.tar+gzip" }],
    };
    const body = Buffer.from(JSON.stringify(manifest));
    const put = await send(`${builds}/v2/${repository}/manifests/${tag}`, "PUT", body, MANIFEST);
    expect(put.status).toBe(201);
    const digest = put.headers.get("docker-content-digest");
    return [
      `/v2/${repository}/manifests/${digest}`,
      ...[config, layer].map((blob) => `/v2/${repository}/blobs/${blob.digest}`),
    ];
  }

  const statuses = (paths: string[]) =>
    Promise.all(paths.map(async (path) => (await send(`${pulls}${path}`)).status));

  async function bytesStored(): Promise<number> {
    const files = await readdir(join(folder, "data"), { recursive: true, withFileTypes: true });
    const sizes = files.filter((one) => one.isFile()).map((one) => stat(join(one.parentPath, one.name)));
    return (await Promise.all(sizes)).reduce((sum, { size }) => sum + size, 0);
  }

  test("frees what no image refers to while nodes pull, and a push that waits for it succeeds", async () => {
    const kept = await push("kept");
    const [ofAccount, left] = [await push("kept", "apps/acc_kept"), await push("left", "apps/acc_left")];
    const gone: string[] = [];
    for (let n = 0; n < 6; n++) gone.push(...(await push(`gone-${n}`)));
    for (const path of [...gone, ...left].filter((one) => one.includes("/manifests/")))
      expect((await send(`${builds}${path}`, "DELETE")).status).toBe(202);
    const before = await bytesStored();
    expect(before).toBeGreaterThan(6 * 256 * 1024);

    script.kill("SIGUSR1");
    // As a build does: it tries until its image is taken.
    const pushed = eventually("an image is taken", () => push("meanwhile").catch(() => undefined));
    await eventually("it is collected", async () => {
      expect(await statuses(kept)).toEqual([200, 200, 200]);
      return existsSync(join(folder, "collected"));
    });
    expect(await statuses(await pushed)).toEqual([200, 200, 200]);
    expect(await statuses(kept)).toEqual([200, 200, 200]);
    expect(new Set(await statuses(gone))).toEqual(new Set([404]));
    const there = [...ofAccount, ...left].map(async (path) => (await send(`${builds}${path}`)).status);
    expect(await Promise.all(there)).toEqual([200, 200, 200, 404, 404, 404]);
    expect(await bytesStored()).toBeLessThan(before / 2);
    expect(await readFile(join(folder, "collected.log"), "utf8")).toContain("blobs marked");
  });

  test("takes nothing where nodes pull", async () => {
    expect((await send(`${pulls}/v2/apps/blobs/uploads/`, "POST")).status).toBe(405);
    expect((await fetch(`${pulls}/v2/apps/tags/list`)).status).toBe(401);
  });

  test("a login pulls what builds of its account pushed, and what was pushed before accounts had logins", async () => {
    const [a, b] = [`acc_${randomBytes(4).toString("hex")}`, `acc_${randomBytes(4).toString("hex")}`];
    const shared = await push("shared");
    const [ofA, ofB] = [await push("one", `apps/${a}`), await push("two", `apps/${b}`)];
    const keys = pullKeys.parse(doorEnv.REGISTRY_PULL_KEYS)!;
    const loginOf = (account: string) =>
      `Basic ${JSON.parse(createPullLogins(keys).configFor("h", account)).auths.h.auth}`;
    const ask = async (paths: string[], authorization: string) => {
      const headers = { authorization, accept: MANIFEST };
      const answers = await Promise.all(paths.map((path) => fetch(`${pulls}${path}`, { headers })));
      for (const answer of answers) await answer.arrayBuffer();
      return new Set(answers.map(({ status }) => status));
    };
    for (const own of [ofA, shared]) expect(await ask(own, loginOf(a))).toEqual(new Set([200]));
    expect(await ask(ofB, loginOf(a))).toEqual(new Set([403]));
    // What the other account pushed is not in the path of this one, whoever knows its digest.
    const moved = ofB.map((path) => path.replace(b, a));
    expect(await ask(moved, loginOf(a))).toEqual(new Set([404]));
    expect(await ask(shared, basic(logins.nodes))).toEqual(new Set([200]));
    expect(await ask(ofA, basic(logins.nodes))).toEqual(new Set([403]));
    const rest = await fetch(`${pulls}${ofA[2]}`, {
      headers: { authorization: loginOf(a), range: "bytes=262134-" },
    });
    expect([rest.status, (await rest.arrayBuffer()).byteLength]).toEqual([206, 10]);
  });

  test("no login that pulls can push, and the one that pushes is not for pulls", async () => {
    const ask = async (url: string, method: string, login: string) => {
      const answer = await fetch(url, { method, headers: { authorization: basic(login) } });
      return answer.status;
    };
    expect(await ask(`${builds}/v2/apps/blobs/uploads/`, "POST", logins.nodes)).toBe(401);
    expect(await ask(`${builds}/v2/`, "GET", logins.nodes)).toBe(401);
    expect(await ask(`${pulls}/v2/`, "GET", logins.nodes)).toBe(200);
    expect(await ask(`${pulls}/v2/`, "GET", logins.push)).toBe(401);
  });
});

describe.skipIf(!program)("the bundled registry with a login that the operator gave", () => {
  const HOST = "berth-registry.platform:5000";
  const password = randomBytes(24).toString("hex");
  const running: ChildProcess[] = [];
  let folder: string;
  let loginEnv: Record<string, string>;
  let makesLogin: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-registry-"));
    const { initContainers } = podsOf(await render("bundled")).find(
      ({ name }) => name === "StatefulSet/berth-registry",
    )!.spec;
    const { command, env } = initContainers![0]!;
    makesLogin = command![1]!;
    const inFolder = (value: string) => value.replace(/^\/etc\/[\w-]+(\/registry)?/, folder);
    loginEnv = Object.fromEntries(env!.map(({ name, value }) => [name, inFolder(value!)]));
  });
  afterAll(async () => {
    for (const one of running)
      if (one.exitCode === null) {
        const ended = new Promise((done) => one.once("exit", done));
        one.kill("SIGTERM");
        await ended;
      }
    if (folder) await rm(folder, { recursive: true, force: true });
  });

  /** Puts a Secret's `.dockerconfigjson` where the pod has it, and makes the registry's file of it. */
  async function give(config: string): Promise<string> {
    await writeFile(loginEnv.REGISTRY_AUTH!, config);
    const root = resolve(import.meta.dirname, "../../..");
    const options = { cwd: root, env: { ...process.env, ...loginEnv } };
    return promisify(execFile)(process.execPath, [makesLogin], options).then(
      () => "",
      ({ stderr }) => stderr,
    );
  }
  const configFor = (host: string, login: string) =>
    JSON.stringify({ auths: { [host]: { auth: Buffer.from(login).toString("base64") } } });

  test("takes pushes by it, and pulls by logins of accounts that are made of it", async () => {
    expect(await give(configFor(HOST, `builds:${password}`))).toBe("");
    const manifests = await render("bundled");
    const config = configOf(manifests, "berth-registry");
    const [port, pullPort, readerPort] = [await freePort(), await freePort(), await freePort()];
    for (const name of ["config.yml", "pulls.yml"]) {
      const text = config[name]!.replace("/data", join(folder, "data"))
        .replace("/etc/berth-login", folder)
        .replace(":5000", `127.0.0.1:${port}`)
        .replace(":5002", `:${readerPort}`);
      await writeFile(join(folder, name), text);
      const env = { PATH: process.env.PATH, OTEL_TRACES_EXPORTER: "none" };
      running.push(spawn(program!, ["serve", name], { cwd: folder, env, stdio: "ignore" }));
    }
    const env = { ...loginEnv, PORT: String(pullPort), REGISTRY_PORT: String(readerPort) };
    running.push(spawn(process.execPath, [DOOR], { env, stdio: "ignore" }));
    const status = async (at: number, path: string, login: string) => {
      const authorization = `Basic ${Buffer.from(login).toString("base64")}`;
      const answer = await fetch(`http://127.0.0.1:${at}${path}`, { headers: { authorization } });
      await answer.arrayBuffer();
      return answer.status;
    };
    for (const [at, path] of [
      [port, "/"],
      [pullPort, "/readyz"],
    ] as const)
      await eventually("it answers", () =>
        status(at, path, "").then(
          (code) => code === 200,
          () => false,
        ),
      );
    expect(await status(port, "/v2/", `builds:${password}`)).toBe(200);
    expect(await status(port, "/v2/", `builds:${password}x`)).toBe(401);
    expect(await status(pullPort, "/v2/", `builds:${password}`)).toBe(401);
    // As the deployer makes it, with the same Secret.
    const pushLogin = configFor(HOST, `builds:${password}`);
    const logins = nodeLogins(readDeployerConfig(manifests), { pushLogin, pullLogin: undefined })!;
    const { auth } = JSON.parse(logins("acc_a")).auths["localhost:30500"];
    const account = Buffer.from(auth, "base64").toString();
    expect(await status(pullPort, "/v2/apps/acc_a/manifests/1", account)).toBe(404);
    expect(await status(pullPort, "/v2/apps/acc_b/manifests/1", account)).toBe(403);
    expect(await status(pullPort, "/v2/apps/acc_a/manifests/1", "acc_a:guessed")).toBe(401);
    expect(await status(pullPort, "/v2/", "nodes:")).toBe(401);
  });

  test.each([
    ["for another host", configFor("registry.example.com", `berth:${password}`), `has no login for ${HOST}`],
    ["that is no JSON", "hunter2-hunter2-hunter2", "has no login for"],
    ["with a short password", configFor(HOST, "berth:hunter2"), "must have 20 to 72 bytes"],
    ["with a long password", configFor(HOST, `berth:${"hunter2".repeat(11)}`), "must have 20 to 72 bytes"],
    ["with a strange user", configFor(HOST, `hunter2\n:${password}`), "letters, digits"],
  ])("says what is wrong with a Secret %s, and not what it holds", async (_, config, sentence) => {
    const told = await give(config);
    expect(told).toContain(sentence);
    expect(told).not.toContain("hunter2");
    expect(told).not.toContain(password);
  });
});
