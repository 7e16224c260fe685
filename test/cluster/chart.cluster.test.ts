import { mkdtemp, rm, writeFile } from "node:fs/promises";
import https from "node:https";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { isDeepStrictEqual } from "node:util";
import type { V1Deployment, V1Pod, V1Secret } from "@kubernetes/client-node";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import * as kinds from "../../services/deployer/kube/kinds.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { chartFolder, helm } from "../contracts/chart/render.ts";
import { readRun } from "../support/cluster-run.ts";
import { connectApp } from "../support/oauth/application.ts";
import { findHydra, type HydraServer, startHydra } from "../support/servers/hydra-server.ts";
import { openPlatform, type Platform } from "../support/world.ts";

const { namespace } = inject("platform")!;
const program = await findHydra();
let world: Platform;
let kube: Kube;
let release: string;
let hydra: HydraServer | undefined;

beforeAll(async () => {
  world = await openPlatform();
  kube = connectKube();
  [{ name: release }] = JSON.parse(await helm("list", "-n", namespace, "-o", "json"));
  if (program) hydra = await startHydra(program, { origin: world.origin, host: (await readRun()).host });
});

afterAll(async () => {
  await world?.stop();
  await hydra?.stop();
});

const deployments = async () =>
  (await kube.list<V1Deployment>(kinds.Deployment, { namespace, labels: "app.kubernetes.io/component" }))
    .items;

const secrets = async () => {
  const { items } = await kube.list<V1Secret>(kinds.Secret, { namespace });
  const own = items.filter(({ type }) => !type?.startsWith("helm.sh/"));
  return Object.fromEntries(own.map(({ metadata, data }) => [metadata!.name, data]));
};

/** Returns what differs between two values, each as "path: before → after". */
function changes(before: unknown, after: unknown, path = ""): string[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (!isObject(before) || !isObject(after))
    return [`${path}: ${JSON.stringify(before)} → ${JSON.stringify(after)}`];
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) => changes(before[key], after[key], `${path}/${key}`));
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null;

const upgrade = (...args: string[]) =>
  helm("upgrade", release, chartFolder, "-n", namespace, "--reuse-values", "--wait", ...args);

test("helm test asks the gateway through its Service, and builds an image", async () => {
  expect(await helm("test", release, "-n", namespace)).toContain("Phase:          Succeeded");
});

test("another installation of the same name is refused, with a sentence, before anything of it is made", async () => {
  const values = join(await mkdtemp(join(tmpdir(), "berth-values-")), "values.json");
  await writeFile(values, await helm("get", "values", release, "-n", namespace, "-o", "json"), {
    mode: 0o600,
  });
  const again = helm("install", release, chartFolder, "-n", "default", "--dry-run=server", "-f", values);
  await expect(again).rejects.toThrow(
    `belongs to the release ${release} in namespace ${namespace}. Each installation in a cluster needs its own name`,
  );
  await rm(dirname(values), { recursive: true });
});

describe("an upgrade", () => {
  test("that changes nothing keeps every secret and every pod", async () => {
    const specs = async () =>
      Object.fromEntries((await deployments()).map(({ metadata, spec }) => [metadata!.name, spec]));
    const before = { secrets: await secrets(), specs: await specs() };
    // What the templates take from maps without an order differs now and then.
    for (let round = 0; round < 3; round++) await upgrade();
    expect(changes(before.specs, await specs())).toEqual([]);
    expect(await secrets()).toEqual(before.secrets);
  }, 300_000);

  test("over a migration, and its rollback, fail no request, reads and writes alike", async () => {
    const { registry, images } = await readRun();
    const [repository, tag] = images.next.split(":");
    const former = await pods("gateway");
    await whileAsked(async () => {
      await upgrade("--set-string", `image.repository=${registry.pull}/${repository},image.tag=${tag}`);
      const next = (await pods("gateway")).filter((pod) => !former.includes(pod));
      expect(next).not.toEqual([]);
      await helm("rollback", release, "-n", namespace, "--wait");
      await eventually("the pods of the next version are gone", async () =>
        (await pods("gateway")).every((pod) => !next.includes(pod)),
      );
    });
    const [{ spec }] = (await deployments()) as [V1Deployment];
    expect(spec!.template.spec!.containers[0]!.image).toBe(`${registry.pull}/${images.platform}`);
  }, 900_000);

  test("that rolls every process, and hands OAuth to a Hydra, fails no request, reads and writes alike", async () => {
    const before = await pods("gateway", "identity");
    await whileAsked(async () => {
      await upgrade("--set-string", `defaults.podAnnotations.rolled=at-${Date.now()}`, ...providedBy(hydra));
      // An old pod of identity would register an application with the embedded provider, which Hydra does not know.
      await eventually("the old pods are gone", async () =>
        (await pods("gateway", "identity")).every((pod) => !before.includes(pod)),
      );
    });
  }, 600_000);

  test.skipIf(!program)("to a Hydra lets it give and end the access of applications", async () => {
    const app = await connectApp(world, { accountId: world.accountId, role: "reader" });
    // Berth's own are signed, and begin otherwise.
    expect(app.accessToken).toMatch(/^ory_at_/);
    const read = async (token: string) => (await world.call("GET", world.A, undefined, { token })).status;
    expect(await read(app.accessToken)).toBe(200);
    const { accessToken } = await app.refresh();
    expect(await read(accessToken)).toBe(200);
    await world.must("DELETE", `/me/mcp-grants/${app.clientId}`);
    await eventually("the token is refused", async () => (await read(accessToken)) === 401);
    expect(await app.refused()).toBe("400 invalid_grant");
  });
});

/** The values that make an Ory Hydra the provider. */
function providedBy(server: HydraServer | undefined): string[] {
  if (!server) return [];
  const values = {
    provider: "hydra",
    "hydra.adminUrl": server.adminUrl,
    "hydra.publicUrl": server.publicUrl,
  };
  return Object.entries(values).flatMap(([name, value]) => ["--set-string", `oauth.${name}=${value}`]);
}

/** Returns the uids of the pods of these processes. */
async function pods(...processes: string[]): Promise<string[]> {
  const labels = `app.kubernetes.io/component in (${processes.join(",")})`;
  const { items } = await kube.list<V1Pod>(kinds.Pod, { namespace, labels });
  return items.map(({ metadata }) => metadata!.uid!);
}

/** Writes and reads from before `work` until after it, and expects every request to succeed. */
async function whileAsked(work: () => Promise<void>): Promise<void> {
  const { P } = await world.environment();
  const asked = ask(world, `${P}/variables`);
  try {
    await eventually("requests flow", async () => asked.answers.length > 20);
    await work();
  } finally {
    await asked.stop();
  }
  expect(asked.answers.filter((answer) => !/^20[01]$/.test(answer))).toEqual([]);
  expect(asked.answers.length).toBeGreaterThan(100);
}

/** Writes and reads repeatedly on keep-alive connections until `stop`; `answers` has the statuses, and what was refused. */
function ask({ baseUrl, ownerToken }: Platform, path: string) {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 4 });
  const answers: string[] = [];
  let stopped = false;
  const send = (method: string, below: string, body?: string) =>
    new Promise<string>((resolve) => {
      const failed = (error: Error) => resolve(`${method} ${error.message}`);
      const headers = { authorization: `Bearer ${ownerToken}`, "content-type": "application/json" };
      https
        .request(baseUrl + path + below, { method, agent, headers }, (response) =>
          text(response).then((body) => {
            const { statusCode = 0 } = response;
            resolve(body && (statusCode < 300 ? String(statusCode) : `${method} ${statusCode} ${body}`));
          }, failed),
        )
        .on("error", failed)
        .end(body);
    });
  const loop = async (worker: number) => {
    for (let n = 0; !stopped; n++) {
      const set = [{ name: `V${worker}`, value: `${n}` }];
      answers.push(await send("POST", "/batch", JSON.stringify({ set })));
      answers.push(await send("GET", ""));
    }
  };
  const done = Promise.all([0, 1].map(loop));
  return {
    answers,
    stop: async () => {
      stopped = true;
      await done;
      agent.destroy();
    },
  };
}
