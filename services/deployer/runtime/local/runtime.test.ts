import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { answeringApp } from "../../../../test/contracts/ports/runtime/apps.ts";
import { imageRefusalContract, runtimeContract } from "../../../../test/contracts/ports/runtime/contract.ts";
import { isRunning, releaseOf, statusOf } from "../../../../test/contracts/ports/runtime/harness.ts";
import { findProcessesOf } from "../../shared/process-tree.ts";
import type { Release } from "../port.ts";
import { artifact, cleanUp, cleanups, makeRoot, openHarness, openLocal } from "./testing.ts";

afterEach(cleanUp);

runtimeContract("local", openHarness);
imageRefusalContract("local", openHarness);

describe("when Berth is stopped", () => {
  test("every app ends, and the next start brings back the same ones", async () => {
    const places = makeRoot();
    const releases: Release[] = [1, 2, 3].map((n) =>
      releaseOf(artifact, answeringApp, { env: { ANSWER: `app ${n}` } }),
    );
    const first = await openLocal({ ...places });
    for (const one of releases) await first.runtime.apply(one);
    for (const one of releases) await statusOf(first.runtime, one.serviceId, isRunning);
    await first.close();
    expect(findProcessesOf(places.folder)).toEqual([]);

    const second = await openLocal({ ...places });
    cleanups.push(second.close);
    for (const one of releases) {
      const status = await statusOf(second.runtime, one.serviceId, isRunning);
      expect((await second.fetch(status.url!, "/")).body).toBe(one.env.ANSWER);
    }
  });

  test("no variable and no command is readable in what it keeps on disk", async () => {
    const places = makeRoot();
    const marker = "marker-of-a-sensitive-value";
    const command = `test ${marker} && node -e "$SCRIPT"`;
    const one = releaseOf(artifact, answeringApp, { command, env: { KEY: marker } });
    const { runtime, close } = await openLocal({ ...places });
    await runtime.apply(one);
    await statusOf(runtime, one.serviceId, isRunning);
    const read = () => globSync(join(places.folder, "**/*.json*")).map((file) => readFileSync(file, "utf8"));
    const during = read();
    await close();
    expect(during.join("").length).toBeGreaterThan(500);
    expect([...during, ...read()].join("")).not.toContain(marker);
  });

  test("under another secret nothing of the old state is run", async () => {
    const places = makeRoot();
    const one = releaseOf(artifact, answeringApp);
    const first = await openLocal({ ...places });
    await first.runtime.apply(one);
    await first.close();
    const second = await openLocal({ ...places, secret: "another secret altogether" });
    cleanups.push(second.close);
    expect(await second.runtime.list()).toEqual([]);
    expect(existsSync(join(places.folder, "services", one.serviceId))).toBe(false);
    await second.runtime.apply(one);
    await statusOf(second.runtime, one.serviceId, isRunning);
  });
});
