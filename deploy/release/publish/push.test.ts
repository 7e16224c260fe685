import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadYaml } from "@kubernetes/client-node";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { helm, helmProgram } from "../../../test/contracts/chart/render.ts";
import { findRegistry } from "../../../test/support/servers/registry.ts";
import { type Descriptor, makeLayer, startLayout, TYPES } from "../image/layout.ts";
import { makeChart } from "../parts/chart.ts";
import { platforms, recipes } from "../settings.ts";
import { readSource } from "../source.ts";
import { writeTar } from "../tar.ts";
import { publish, readCredentials } from "./publish.ts";
import { pushLayout } from "./push.ts";
import { openRegistry, parseRegistry } from "./registry.ts";

const program = await findRegistry();
const root = join(import.meta.dirname, "../../..");

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-push-"));
});
afterAll(() => rm(folder, { recursive: true }));

/** Makes a small image for all platforms in `images/`, and returns the digest of its index. */
async function smallImage(out: string, name: string): Promise<string> {
  const date = new Date(1_700_000_000_000);
  const work = join(out, `work-${name}`);
  await mkdir(work, { recursive: true });
  const layout = await startLayout(join(out, "images", name));
  const manifests: Descriptor[] = [];
  for (const { arch } of platforms) {
    const file = { kind: "file" as const, path: "hello", mode: 0o644, data: Buffer.from(`${name} ${arch}`) };
    const layer = await makeLayer(writeTar([file], date), work, arch);
    const of = { architecture: arch, os: "linux" as const };
    const config = { ...of, config: {}, rootfs: { type: "layers", diff_ids: [layer.diffId] } };
    manifests.push(await layout.image(of, config, [layer]));
  }
  return layout.finish(manifests, {}, {});
}

test("an image is the same each time", async () => {
  const twice = [
    await smallImage(join(folder, "one"), "berth"),
    await smallImage(join(folder, "two"), "berth"),
  ];
  expect(twice[0]).toBe(twice[1]);
});

describe.skipIf(!program)("a registry", () => {
  let registry: ChildProcess;
  let door: ReturnType<typeof createServer>;
  let host: string;
  const digests = { berth: "", "berth-builder": "" };
  const out = () => join(folder, "release");
  /** What the door in front of the registry saw, and how many requests it answers with 503 by itself. */
  const seen: string[] = [];
  let failures = 0;
  let chart: { version: string; name: string; apiVersion: string };

  beforeAll(async () => {
    const port = await freePort();
    const config = { version: 0.1, storage: { filesystem: { rootdirectory: join(folder, "data") } } };
    const settings = { ...config, http: { addr: `127.0.0.1:${port}`, relativeurls: true } };
    await writeFile(join(folder, "registry.yml"), JSON.stringify(settings));
    registry = spawn(program!, ["serve", join(folder, "registry.yml")], {
      env: { PATH: process.env.PATH, OTEL_TRACES_EXPORTER: "none" },
      stdio: "ignore",
    });
    await eventually("it answers", () =>
      fetch(`http://127.0.0.1:${port}/v2/`).then(
        ({ ok }) => ok,
        () => false,
      ),
    );
    door = createServer((near: IncomingMessage, answer: ServerResponse) => {
      seen.push(`${near.method} ${near.url}`);
      if (failures > 0) {
        failures--;
        near.resume().on("end", () => answer.writeHead(503).end());
        return;
      }
      const { method, headers, url } = near;
      const far = request({ port, method, headers, path: url }, (response) => {
        answer.writeHead(response.statusCode!, response.headers);
        response.pipe(answer);
      });
      near.pipe(far);
    });
    await once(door.listen(0, "127.0.0.1"), "listening");
    host = `127.0.0.1:${(door.address() as AddressInfo).port}`;
    for (const { name } of recipes) digests[name] = await smallImage(out(), name);
    const source = await readSource(root);
    await makeChart(source, `${host}/berth`, digests, out());
    chart = { apiVersion: "v2", name: "berth", version: source.version };
  });

  afterEach(() => {
    failures = 0;
    seen.length = 0;
  });

  afterAll(async () => {
    door?.closeAllConnections();
    door?.close();
    if (registry?.exitCode !== null) return;
    const ended = once(registry, "exit");
    registry.kill("SIGKILL");
    await ended;
  });

  const sent = () => seen.filter((line) => !/^(?:GET|HEAD) /.test(line));

  test("has all platforms of each image, by digest and tag, and the chart; pushed again, nothing is sent", async () => {
    const pushed = await publish(out(), `${host}/berth`, chart, {});
    expect(pushed.map(({ reference }) => reference)).toEqual([
      `berth/berth:${chart.version}`,
      `berth/berth-builder:${chart.version}`,
      `berth/charts/berth:${chart.version}`,
    ]);
    for (const { name } of recipes)
      for (const at of [digests[name], chart.version]) {
        const url = `http://${host}/v2/berth/${name}/manifests/${at}`;
        const answer = await fetch(url, { headers: { accept: TYPES.index } });
        expect(answer.headers.get("docker-content-digest")).toBe(digests[name]);
        const { manifests } = (await answer.json()) as { manifests: Descriptor[] };
        expect(manifests.map(({ platform }) => platform!.architecture)).toEqual(["amd64", "arm64"]);
        for (const { digest } of manifests) {
          const one = await fetch(`http://${host}/v2/berth/${name}/manifests/${digest}`, {
            headers: { accept: TYPES.manifest },
          });
          const { layers } = (await one.json()) as { layers: Descriptor[] };
          const blob = await fetch(`http://${host}/v2/berth/${name}/blobs/${layers[0]!.digest}`);
          expect((await blob.arrayBuffer()).byteLength).toBe(layers[0]!.size);
        }
      }
    seen.length = 0;
    const again = await publish(out(), `${host}/berth`, chart, {});
    expect([again.map((one) => one.sent), sent()]).toEqual([[0, 0, 0], []]);
  });

  test.skipIf(!helmProgram)("helm pulls the chart, which names the images there", async () => {
    await publish(out(), `${host}/berth`, chart, {});
    const to = join(folder, "pulled");
    await mkdir(to);
    const reference = `oci://${host}/berth/charts/berth`;
    await helm("pull", reference, "--version", chart.version, "--plain-http", "--untar", "-d", to);
    const image = (name: keyof typeof digests) => ({
      repository: `${host}/berth/${name}`,
      digest: digests[name],
    });
    const pulled = loadYaml(await helm("show", "values", join(to, "berth")));
    expect(pulled).toMatchObject({ image: image("berth"), builds: { image: image("berth-builder") } });
  });

  test("that answers 503 for a while is asked again; for good, it is said which request it did not take", async () => {
    const layout = join(out(), "images/berth");
    failures = 3;
    const patient = openRegistry(host, {}, 1);
    expect(await pushLayout(patient, layout, "retried", "1")).toMatchObject({ digest: digests.berth });
    failures = Number.POSITIVE_INFINITY;
    await expect(pushLayout(patient, layout, "never", "1")).rejects.toThrow(
      /^HEAD http:\/\/127\.0\.0\.1:\d+\/v2\/never\/blobs\/sha256:[0-9a-f]+: it answers 503$/,
    );
  });

  test("gets no image whose file is damaged", async () => {
    const damaged = join(folder, "damaged");
    const digest = await smallImage(damaged, "berth");
    await writeFile(join(damaged, "images/berth/blobs", ...digest.split(":")), "{}");
    const push = pushLayout(openRegistry(host, {}, 1), join(damaged, "images/berth"), "damaged", "1");
    await expect(push).rejects.toThrow("is damaged");
    expect(sent()).toEqual([]);
  });
});

describe("a login", () => {
  /** A registry that wants a token, and sends uploads to another host. */
  async function startStrict(realm?: string) {
    const logins: string[] = [];
    const own = createServer((near, answer) => {
      const url = new URL(near.url!, "http://own");
      const { authorization } = near.headers;
      near.resume();
      const at = `127.0.0.1:${(own.address() as AddressInfo).port}`;
      if (url.pathname === "/token") {
        logins.push(authorization ?? "none");
        const right = authorization === `Basic ${Buffer.from("me:secret").toString("base64")}`;
        answer.writeHead(right ? 200 : 401, { "content-type": "application/json" });
        return answer.end(JSON.stringify({ token: `for ${url.searchParams.get("scope")}` }));
      }
      if (authorization !== "Bearer for repository:image:pull,push") {
        const challenge = `Bearer realm="${realm ?? `http://${at}/token`}",service="own"`;
        return answer.writeHead(401, { "www-authenticate": challenge }).end();
      }
      if (near.method === "HEAD") return answer.writeHead(404).end();
      if (near.method === "POST") {
        const location = `http://127.0.0.1:${(other.address() as AddressInfo).port}/upload?state=1`;
        return answer.writeHead(202, { location }).end();
      }
      answer.writeHead(201).end();
    });
    const uploads: string[] = [];
    const other = createServer((near, answer) => {
      uploads.push(near.headers.authorization ?? "no login");
      near.resume().on("end", () => answer.writeHead(201).end());
    });
    for (const server of [own, other]) await once(server.listen(0, "127.0.0.1"), "listening");
    const stop = () => {
      for (const server of [own, other]) {
        server.closeAllConnections();
        server.close();
      }
    };
    return { host: `127.0.0.1:${(own.address() as AddressInfo).port}`, logins, uploads, stop };
  }

  test("is exchanged for a token once an image, and is not sent to the host that takes uploads", async () => {
    const strict = await startStrict();
    try {
      await smallImage(join(folder, "login"), "berth");
      const layout = join(folder, "login/images/berth");
      const registry = openRegistry(strict.host, { user: "me", password: "secret" }, 1);
      expect((await pushLayout(registry, layout, "image", "1")).sent).toBeGreaterThan(4);
      expect(strict.logins).toHaveLength(1);
      expect(new Set(strict.uploads)).toEqual(new Set(["no login"]));
      const wrong = openRegistry(strict.host, { user: "me", password: "wrong" }, 1);
      const refused = await pushLayout(wrong, layout, "image", "1").catch((error: Error) => error.message);
      expect(refused).toMatch(/answers 401\. Set REGISTRY_USER and REGISTRY_PASSWORD/);
    } finally {
      strict.stop();
    }
  });

  test("is not sent to where a registry asks for it without TLS", async () => {
    const strict = await startStrict("http://tokens.example.com/token");
    try {
      await smallImage(join(folder, "plain"), "berth");
      const registry = openRegistry(strict.host, { user: "me", password: "secret" }, 1);
      const push = pushLayout(registry, join(folder, "plain/images/berth"), "image", "1");
      await expect(push).rejects.toThrow(
        "asks for the login at http://tokens.example.com, which is not https",
      );
    } finally {
      strict.stop();
    }
  });

  test("comes from the environment, or docker's configuration", async () => {
    const config = join(folder, "docker");
    await mkdir(config);
    const text = JSON.stringify({ auths: { "ghcr.io": { auth: "bWU6c2VjcmV0" } } });
    await writeFile(join(config, "config.json"), text);
    expect(await readCredentials({ DOCKER_CONFIG: config })).toEqual({ config: text });
    expect(
      await readCredentials({ REGISTRY_USER: "me", REGISTRY_PASSWORD: "x", DOCKER_CONFIG: config }),
    ).toEqual({
      user: "me",
      password: "x",
    });
    await expect(readCredentials({ REGISTRY_USER: "me" })).rejects.toThrow("Set both");
    await expect(readCredentials({ DOCKER_CONFIG: join(folder, "none") })).rejects.toThrow("ENOENT");
    await writeFile(join(config, "config.json"), "{");
    await expect(readCredentials({ DOCKER_CONFIG: config })).rejects.toThrow("is not JSON");
  });
});

test.each(["https://ghcr.io", "ghcr.io/", "ghcr.io/You", "", "a b", "ghcr.io/you:tag"])(
  "%j is no registry",
  (text) => {
    expect(() => parseRegistry(text)).toThrow("name a registry such as ghcr.io/you");
  },
);

test("a registry has a host and perhaps a path", () => {
  expect(parseRegistry("ghcr.io/you/berth")).toEqual({ host: "ghcr.io", path: "you/berth" });
  expect(parseRegistry("127.0.0.1:5000")).toEqual({ host: "127.0.0.1:5000", path: "" });
});
