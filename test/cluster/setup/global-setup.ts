import { randomUUID } from "node:crypto";
import type { TestProject } from "vitest/node";
import { readRun } from "../../support/cluster-run.ts";
import { install } from "./install.ts";

/** Installs this repository's chart in a namespace of its own: the platform under test in this run. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const run = await readRun();
  const pull = (image: keyof typeof run.images) => `${run.registry.pull}/${run.images[image]}`;
  const push = (image: keyof typeof run.images) => `${run.registry.push}/${run.images[image]}`;
  project.provide("clusterImages", {
    node: pull("node"),
    nodeToBuildFrom: push("node-slim"),
    platform: pull("platform"),
    builder: pull("builder"),
    postgres: pull("postgres"),
    postgres15: pull("postgres-15"),
    redis: pull("redis"),
    valkey: pull("valkey"),
    pgbouncer: pull("pgbouncer"),
    python: push("python"),
    ...(run.images.buildpacks && { buildpacks: push("buildpacks") }),
  });
  project.provide("patienceMs", 120_000);
  // Saves minutes when working on a test that needs no platform.
  if (process.env.BERTH_CLUSTER_PLATFORM === "off") return async () => {};
  const installed = await install(run, `test-${randomUUID().slice(0, 8)}`);
  project.provide("platform", installed.platform);
  return installed.uninstall;
}
