import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openBucket } from "../../deploy/backup/bucket.ts";
import { withAcme } from "../../deploy/cluster/settings.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import type { Door } from "../support/door.ts";
import { openRelease } from "./berth-server.ts";

// A release in a registry, and what a person does with it: docs/server.md#installing. What takes minutes is part of `npm run test:acme`.

const ALL_FINE = /^(?:[a-z]+: fine\n)+$/;

let release: Awaited<ReturnType<typeof openRelease>>;
let door: Door;
let service: string;
/** The server that has the installation. */
let at = "root";

beforeAll(async () => {
  release = await openRelease();
  await release.makeNamespace();
});
afterAll(() => release?.close(at));

const server = (...args: string[]) => release.berthServer(at, ...args);

test("one command installs a release from a registry by digest, and the same command again changes nothing", async () => {
  const { name, run, kubectl } = release;
  await release.push();
  await release.makeServerFiles("root");
  const history = () => release.call(run.helm, "history", name, "-n", name, "-o", "json");

  expect(await release.install("root")).toContain(`https://${release.domain}/signin`);
  const images = "jsonpath={.items[*].spec.template.spec.containers[*].image}";
  const running = (await kubectl.call("get", "deployments", "-n", name, "-o", images)).split(" ");
  const ofRelease = new RegExp(`^${run.registry.pull}/${name}/berth@sha256:[0-9a-f]{64}$`);
  expect(new Set(running)).toEqual(new Set([expect.stringMatching(ofRelease)]));
  const before = await history();
  const again = await release.install("root");
  expect(again).toContain("unchanged");
  expect(again).not.toContain("signin");
  expect(await history()).toBe(before);
});

test("its owner deploys an app, which answers by https", async () => {
  door = await release.signIn("root");
  service = await release.deploy(door);
  await release.answers(door, service);
});

test("doctor finds nothing wrong, and then the pod that is not ready", async () => {
  const { name, kubectl } = release;
  await expect.poll(() => server("doctor").catch(String)).toMatch(ALL_FINE);
  for (const replicas of [0, 1])
    await kubectl.call("scale", "deployment", `${name}-variables`, "-n", name, `--replicas=${replicas}`);
  const failed = await server("doctor").catch((error: { stdout: string }) => error.stdout);
  expect(failed).toMatch(new RegExp(`${name}-variables-.* is not ready\\. Next: kubectl`));
});

test.skipIf(!withAcme)(
  "when the server is lost, one command on another brings back the platform and its apps from a backup",
  async () => {
    const { name, run, folder, kubectl } = release;
    const { accessKey, secretKey, endpoint } = run.objectStore;
    const keys = join(folder, "s3.env");
    await writeFile(keys, `access-key=${accessKey}\nsecret-key=${secretKey}\n`);
    await openBucket({ ...run.objectStore, region: "us-east-1", bucket: name, prefix: "" }).make();
    await server("backup", "--endpoint", endpoint, "--bucket", name, "--keys", keys);
    // What a person keeps elsewhere, as the command says.
    await release.makeServerFiles("another");
    await cp(join(folder, "root/etc/berth"), join(folder, "another/etc/berth"), { recursive: true });
    await server("uninstall", "--data", "--yes");
    await eventually("the server is gone", async () => {
      const left = await kubectl.call("get", "namespaces", "-o", "name");
      return !left.includes(name);
    });

    await release.makeNamespace();
    at = "another";
    await server("restore", "--yes");
    const back = await release.signIn(at);
    expect(back.accountId).toBe(door.accountId);
    await release.answers(back, service);
    await expect.poll(() => server("doctor").catch(String)).toMatch(ALL_FINE);
    await server("backup");
  },
);

test("uninstall keeps keys, volumes and apps, and deletes them when told so", async () => {
  const { name, kubectl } = release;
  const environment = await release.namespaceOfApps();
  expect(await server("uninstall", "--yes")).toContain("are kept");
  await kubectl.call("get", "secret", `${name}-keys`, "-n", name);
  expect(await kubectl.call("get", "deployments", "-n", environment, "-o", "name")).toContain("web");
  await server("uninstall", "--yes", "--data");
  expect(await kubectl.call("get", "namespaces", "-o", "name")).not.toContain(name);
});
