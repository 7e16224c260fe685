import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, inject } from "vitest";
import { never, requestOf } from "../../../../../test/contracts/ports/builder/harness.ts";
import type { ArchiveEntry } from "../../../../../test/support/archives.ts";
import { Pod } from "../../../kube/kinds.ts";
import { selector } from "../../../kube/names.ts";
import { BuildFailure } from "../../build-failure.ts";
import type { BuildRequest } from "../../port.ts";
import { buildLabels } from "../job-manifest.ts";
import { type ClusterHarness, openCluster } from "./testing.ts";

/** A file of an archive; what is not text is written as JSON. */
export const file = (name: string, content: unknown): ArchiveEntry => ({
  name,
  content: typeof content === "string" ? content : JSON.stringify(content),
});

/** Opens a cluster for the tests of this `describe`, and returns what they need. */
export function onCluster() {
  let cluster: ClusterHarness;
  beforeAll(async () => {
    cluster = await openCluster();
  });
  afterAll(() => cluster?.close());
  const node = inject("clusterImages").nodeToBuildFrom;
  const requestFor = (entries: ArchiveEntry[], changes: Partial<BuildRequest> = {}) =>
    requestOf(cluster.store, entries, changes);
  return {
    cluster: () => cluster,
    /** The Node image as a Dockerfile names it. */
    node,
    requestFor,
    async failureOf(request: BuildRequest): Promise<BuildFailure> {
      const failure = await cluster.builder.build(request, never).catch((error) => error);
      expect(failure).toBeInstanceOf(BuildFailure);
      expect(await cluster.remains(request.buildId)).toEqual([]);
      return failure as BuildFailure;
    },
    /** A request whose build prints “compiling” and runs until it is ended. */
    endless: () =>
      requestFor([file("Dockerfile", `FROM ${node}\nRUN echo compiling; sleep 1000\n`)], {
        timeoutMs: 600_000,
      }),
    async podOf(buildId: string) {
      const labels = selector(buildLabels(buildId));
      return (await cluster.kube.list(Pod, { namespace: cluster.namespace, labels })).items[0];
    },
  };
}

/** Waits for a line of a build; throws when the build ends without it. */
export async function heard(lines: string[], line: string, building: Promise<unknown>): Promise<void> {
  let over = false;
  const ended = () => {
    over = true;
  };
  building.then(ended, ended);
  while (!lines.includes(line)) {
    if (over) throw new Error(`the build ended without “${line}”: ${lines.join("\n")}`);
    await delay(20);
  }
}
