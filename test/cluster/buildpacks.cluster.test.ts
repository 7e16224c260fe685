import { afterAll, beforeAll, expect, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { settled } from "../support/apps.ts";
import { openPlatform, type Platform } from "../support/world.ts";
import { podsOf, webService } from "./web-service.ts";

// The operator has chosen a builder image whose one buildpack takes sources with a greeting.txt.

let world: Platform;
let kube: Kube;

beforeAll(async () => {
  world = await openPlatform();
  kube = connectKube();
});

afterAll(() => world?.stop());

const BUILDPACKS = ["berth/greeting@1.0.0"];

test("a source in no language that Berth knows is built by buildpacks, which the deployment names, and serves", async () => {
  const { live, said, at, log, id } = await webService(world);
  const version = await live({ "greeting.txt": "hello" });
  expect(await said()).toBe("hello by the buildpack plain");
  expect(await at(version)).toMatchObject({ buildpacks: BUILDPACKS });
  expect(await log(version)).toContain("Built by the buildpacks berth/greeting@1.0.0.");
  const images = (await podsOf(kube, id)).flatMap((pod) => pod.spec!.containers.map(({ image }) => image));
  expect(images.filter((image) => !/@sha256:[0-9a-f]{64}$/.test(image ?? ""))).toEqual([]);
});

test("a start command that is set later runs in the environment of the buildpacks, without a build, and so does a rollback", async () => {
  const { live, said, at, S } = await webService(world);
  const first = await live({ "greeting.txt": "hello" });
  const command = `node /layers/berth_greeting/server/serve.mjs "it's set"`;
  await world.must("PATCH", S, { config: { command } });
  const next = await world.must<{ version: number }>("POST", `${S}/deploy`, {});
  expect(await settled(world, S, next.version)).toMatchObject({ status: "applied", errors: [] });
  expect(await at(next.version)).toMatchObject({ builtVersion: first, buildpacks: [] });
  await eventually("the command runs", async () => (await said()) === "hello by the buildpack it's set");
  const back = await world.must<{ version: number }>("POST", `${S}/rollback`, { version: first });
  expect(await settled(world, S, back.version)).toMatchObject({ status: "applied", errors: [] });
  await eventually("the first start is back", async () => (await said()) === "hello by the buildpack plain");
});

test("config.builder leaves to buildpacks what Berth would build itself; one that none recognises fails and says what was tried", async () => {
  const { live, deploy, said, at, S } = await webService(world);
  await world.must("PATCH", S, { config: { builder: "buildpacks" } });
  await live({ "greeting.txt": "mine", "package.json": "{}", "server.js": "process.exit(1)" });
  expect(await said()).toBe("mine by the buildpack plain");
  const version = await deploy({ "server.rb": "puts 1" });
  await settled(world, S, version);
  expect(await at(version)).toMatchObject({
    status: "failed",
    errors: [
      {
        stage: "detect",
        code: "runtime_not_detected",
        message: expect.stringContaining("Tried: berth/greeting"),
      },
    ],
  });
  expect(await said()).toBe("mine by the buildpack plain");
});
