import { afterAll, beforeAll, expect, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import { Job } from "../../services/deployer/kube/kinds.ts";
import { label, selector } from "../../services/deployer/kube/names.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { settled } from "../support/apps.ts";
import { openPlatform, type Platform } from "../support/world.ts";
import { webService as makeWebService, saying } from "./web-service.ts";

let world: Platform;
let kube: Kube;

beforeAll(async () => {
  world = await openPlatform();
  kube = connectKube();
});
afterAll(() => world?.stop());

const app = (words: string) => ({ "package.json": "{}", "server.js": saying(words) });

/** A web service that says “one”. `set` changes its release command; `jobs` are those of its environment. */
async function webService() {
  const web = await makeWebService(world);
  await web.live(app("one"));
  const set = (releaseCommand: string) => world.must("PATCH", web.S, { config: { releaseCommand } });
  const labels = selector({ [label("environment")]: web.environmentId });
  const jobs = async () =>
    (await kube.list(Job, { labels })).items.filter(({ metadata }) => metadata?.name?.startsWith("release-"));
  return { ...web, set, jobs };
}

test("a release command runs once as a Job, before the release is live, and nothing is left of it", async () => {
  const { live, said, log, set, jobs } = await webService();
  await set(`echo "migrates on port $PORT"`);
  const version = await live(app("two"));
  expect((await log(version)).match(/migrates on port 8080/g)).toHaveLength(1);
  await eventually("the new release serves", async () => (await said()) === "two");
  await eventually("its Job is removed", async () => (await jobs()).length === 0);
});

test("a release command that fails leaves what runs alone; a canceled one ends", async () => {
  const { S, deploy, said, log, set, jobs } = await webService();
  await set("echo no such table; exit 3");
  const failing = await deploy(app("two"));
  const { errors } = await settled(world, S, failing);
  expect(errors).toMatchObject([{ stage: "release", code: "release_command_failed" }]);
  expect(errors[0]!.message).toContain("exit code 3");
  expect(errors[0]!.message).toContain("no such table");
  expect(await said()).toBe("one");

  await set("echo waiting; sleep 600");
  const waiting = await deploy(app("three"));
  await eventually("it runs", async () => (await log(waiting)).includes("waiting"));
  await world.must("POST", `${S}/deployments/${waiting}/cancel`);
  await eventually("its Job is removed", async () => (await jobs()).length === 0);
  expect(await said()).toBe("one");
});
