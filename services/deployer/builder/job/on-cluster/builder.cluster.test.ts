import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { builderContract } from "../../../../../test/contracts/ports/builder/contract.ts";
import { never } from "../../../../../test/contracts/ports/builder/harness.ts";
import { exampleApp, exampleFiles } from "../../../../../test/support/archives.ts";
import { Pod } from "../../../kube/kinds.ts";
import { BuildFailure } from "../../build-failure.ts";
import { BuildHandedOver } from "../../port.ts";
import { type ClusterHarness, openCluster } from "./testing.ts";
import { file, heard, onCluster } from "./testing-builds.ts";

builderContract("job", () => openCluster());

describe("the builder on a cluster", () => {
  const tools = onCluster();
  const { node, requestFor, endless, podOf } = tools;
  let cluster: ClusterHarness;
  beforeAll(() => {
    cluster = tools.cluster();
  });

  test("a cancelled Dockerfile build is gone within seconds", async () => {
    const request = await endless();
    const cancel = new AbortController();
    const building = cluster.builder.build(request, cancel.signal).catch((error) => error);
    await heard(request.lines, "compiling", building);
    const reason = new Error("a newer deployment came");
    const from = Date.now();
    cancel.abort(reason);
    expect(await building).toBe(reason);
    expect(await cluster.remains(request.buildId)).toEqual([]);
    console.log(`cancelled and gone after ${Date.now() - from} ms`);
  });

  test("a process that leaves lets its build go on, and the next one logs all of it from the beginning", async () => {
    const script = `FROM ${node}\nRUN echo begun; while [ ! -e /go ]; do sleep 1; wget -q -O /go GO && touch /go; done; echo went on\n`;
    const { git } = cluster;
    // The step waits for a repository that is not there yet.
    const waits = script.replace(
      "wget -q -O /go GO && touch /go",
      `node -e 'fetch("${git.url("go")}/info/refs?service=git-upload-pack").then((r) => r.status === 200 && require("fs").writeFileSync("/go", ""))'`,
    );
    git.create("left", { ...exampleFiles("node"), Dockerfile: waits });
    const source = { kind: "git" as const, repository: git.url("left"), branch: "main" };
    const request = await requestFor([], { source });
    const leave = new AbortController();
    const left = cluster.builder.build(request, leave.signal).catch((error) => error);
    await heard(request.lines, "begun", left);
    leave.abort(new BuildHandedOver());
    expect(await left).toBe(leave.signal.reason);
    const pod = await podOf(request.buildId);
    expect(pod?.status?.phase).toBe("Running");

    const commits: string[] = [];
    const next = {
      ...request,
      lines: [] as string[],
      stages: [] as string[],
      onCommit: (commit: string) => commits.push(commit),
      log: (line: string) => next.lines.push(line),
      onStage: (stage: string) => next.stages.push(stage),
    };
    const going = cluster.another().build(next, never);
    await heard(next.lines, "begun", going);
    expect((await podOf(request.buildId))?.metadata?.uid).toBe(pod?.metadata?.uid);
    git.create("go", { "a.txt": "a" });
    const result = await going;
    expect(next.lines.slice(0, request.lines.length)).toEqual(request.lines);
    expect(next.lines).toContain("went on");
    expect([next.stages[0], commits.length, result.commit]).toEqual(["Fetching source", 1, commits[0]]);
    expect(new Set(next.lines.filter((line) => line === "begun")).size).toBe(1);
    // And when its Job is no more, its image says what came of it.
    expect(await cluster.another().build(request, never)).toEqual(result);
  });

  test("a build whose pod is taken away is worth another try, and leaves nothing", async () => {
    const request = await endless();
    const building = cluster.builder.build(request, never).catch((error) => error);
    await heard(request.lines, "compiling", building);
    const pod = await podOf(request.buildId);
    await cluster.kube.remove(Pod, pod?.metadata?.name ?? "", cluster.namespace);
    const error = await building;
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toBeInstanceOf(BuildFailure);
    expect(await cluster.remains(request.buildId)).toEqual([]);
  });

  test("a builder that cannot start says so, and can be cancelled", async () => {
    const image = cluster.options.image.replace(/[^/]*$/, "no-such-builder:1");
    const builder = cluster.withOptions({ image });
    const request = await requestFor(exampleApp("node"));
    const cancel = new AbortController();
    const building = builder.build(request, cancel.signal).catch((error) => error);
    while (!request.lines.some((line) => line.includes("image cannot be pulled"))) await delay(50);
    cancel.abort(new Error("enough"));
    expect((await building).message).toBe("enough");
    expect(await cluster.remains(request.buildId)).toEqual([]);
  });

  test("a step that needs too much memory fails the build, which says so", async () => {
    const [requests, limits] = [
      { cpu: "50m", memory: "50Mi" },
      { cpu: "1", memory: "200Mi" },
    ];
    const builder = cluster.withOptions({ resources: { requests, limits } });
    // In one piece: a program that takes its memory bit by bit can crawl at the limit for minutes.
    const eat = "const all = []; for (;;) all.push(Buffer.alloc(1_000_000_000, 1));";
    const request = await requestFor([
      file("eat.js", eat),
      file("Dockerfile", `FROM ${node}\nCOPY . .\nRUN node eat.js\n`),
    ]);
    const failure = await builder.build(request, never).catch((error) => error);
    expect(failure).toBeInstanceOf(BuildFailure);
    expect(failure.message).toMatch(/memory/);
  });
});
