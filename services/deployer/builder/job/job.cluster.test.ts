import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import {
  type ArchiveEntry,
  builderContract,
  exampleApp,
  exampleFiles,
  never,
  requestOf,
} from "../../../../test/contracts/ports/builder.ts";
import { Job, Pod, Secret } from "../../kube/kinds.ts";
import { selector } from "../../kube/names.ts";
import { readPodLog } from "../../kube/pod-log.ts";
import { imageRef } from "../../runtime/port.ts";
import { BuildFailure, BuildHandedOver, type BuildRequest } from "../port.ts";
import { buildLabels, CONTAINER_NAME, jobName } from "./job-manifest.ts";
import { type ClusterHarness, openCluster } from "./testing.ts";

builderContract("job", () => openCluster());

describe("the builder on a cluster", () => {
  let cluster: ClusterHarness;
  beforeAll(async () => {
    cluster = await openCluster();
  });
  afterAll(() => cluster?.close());

  const file = (name: string, content: unknown): ArchiveEntry => ({
    name,
    content: typeof content === "string" ? content : JSON.stringify(content),
  });
  const node = inject("clusterImages").nodeToBuildFrom;
  const requestFor = (entries: ArchiveEntry[], changes: Partial<BuildRequest> = {}) =>
    requestOf(cluster.store, entries, changes);
  const failureOf = async (request: BuildRequest) => {
    const failure = await cluster.builder.build(request, never).catch((error) => error);
    expect(failure).toBeInstanceOf(BuildFailure);
    expect(await cluster.remains(request.buildId)).toEqual([]);
    return failure as BuildFailure;
  };
  /** A request whose build prints “compiling” and goes on until it is ended. */
  const endless = () =>
    requestFor([file("Dockerfile", `FROM ${node}\nRUN echo compiling; sleep 1000\n`)], {
      timeoutMs: 600_000,
    });
  /** Waits for a line of a build, which is not to end before. */
  const heard = async (lines: string[], line: string, building: Promise<unknown>) => {
    let over = false;
    const ended = () => {
      over = true;
    };
    building.then(ended, ended);
    while (!lines.includes(line)) {
      if (over) throw new Error(`the build ended without “${line}”: ${lines.join("\n")}`);
      await delay(20);
    }
  };
  const podOf = async (buildId: string) => {
    const labels = selector(buildLabels(buildId));
    return (await cluster.kube.page(Pod, { namespace: cluster.namespace, labels })).items[0];
  };

  test("a Dockerfile is built, its steps run, and what it starts answers", async () => {
    const dockerfile = `FROM ${node} AS made
WORKDIR /made
RUN echo "made while building" > made.txt && echo "RUN was here"
FROM ${node}
WORKDIR /app
COPY server.js ./
COPY --from=made /made/made.txt ./
ENV GREETING=from-the-Dockerfile
USER 1000
CMD ["node", "server.js"]
`;
    const request = await requestFor([...exampleApp("node"), file("ops/Dockerfile", dockerfile)], {
      dockerfile: "ops/Dockerfile",
    });
    const result = await cluster.builder.build(request, never);
    expect(result).toEqual({
      runtime: "dockerfile",
      artifact: expect.stringMatching(/@sha256:[0-9a-f]{64}$/),
    });
    expect(request.lines).toContain("RUN was here");
    expect(request.stages.at(-1)).toBe("Pushing image");
    expect((await cluster.ask(result, "/", {})).body).toContain("from-the-Dockerfile");
  });

  test("a Dockerfile that cannot be built says why", async () => {
    const build = async (dockerfile: string) => {
      const request = await requestFor([file("Dockerfile", dockerfile)]);
      const { stage, code, message } = await failureOf(request);
      expect(stage).toBe("build");
      return { code, message, lines: request.lines };
    };
    const step = await build(`FROM ${node}\nRUN echo about to fail >&2; exit 23\n`);
    expect(step).toMatchObject({ code: "compile_failed", lines: expect.arrayContaining(["about to fail"]) });
    expect(step.message).toContain("exit code 23");
    const missing = await build(`FROM ${node}\nCOPY nowhere.txt /\n`);
    expect(missing).toMatchObject({
      code: "dockerfile_failed",
      message: expect.stringContaining("nowhere.txt"),
    });
    const image = node.replace(/[^/]*$/, "no-such-image:1");
    const base = await build(`FROM ${image}\n`);
    expect(base).toMatchObject({ code: "base_image_unavailable", message: expect.stringContaining(image) });
  });

  test("dependencies come from the package registry once, and are taken over while the lock file stays", async () => {
    const lock = {
      name: "app",
      lockfileVersion: 3,
      requires: true,
      packages: {
        "": { name: "app", dependencies: { "is-number": "7.0.0" } },
        "node_modules/is-number": {
          version: "7.0.0",
          integrity:
            "sha512-41Cifkg6e8TylSpdtTpeLVMqvSBEVzTttHvERD741+pnZ8ANv0004MRL43QKPDlK9cGvNp6NZWZUBlbGXYxxng==",
          engines: { node: ">=0.12.0" },
        },
      },
    };
    const main = (text: string) =>
      `const is = require("is-number"); require("node:http").createServer((_, res) => res.end("${text} " + is(7))).listen(process.env.PORT)`;
    const entries = (text: string) => [
      file("package.json", { dependencies: { "is-number": "7.0.0" }, scripts: { start: "node main.js" } }),
      file("package-lock.json", lock),
      file("main.js", main(text)),
    ];
    const service = { serviceId: "svc_locked" };
    const first = await requestFor(entries("one"), service);
    const result = await cluster.builder.build(first, never);
    expect(first.lines.join("\n")).toContain("RUN npm ci");
    expect((await cluster.ask(result, "/", {})).body).toBe("one true");
    const second = await requestFor(entries("two"), service);
    const again = await cluster.builder.build(second, never);
    expect(second.lines.join("\n")).not.toContain("RUN npm ci");
    expect(second.lines.join("\n")).toContain("package-lock.json did not change");
    expect((await cluster.ask(again, "/", {})).body).toBe("two true");
    await cluster.builder.removeCaches(service.serviceId);
    const third = await requestFor(entries("three"), service);
    await cluster.builder.build(third, never);
    expect(third.lines.join("\n")).toContain("RUN npm ci");
  });

  test("a Procfile or the service's command says how to start what is there", async () => {
    const server = (text: string) =>
      file(
        "app.js",
        `require("node:http").createServer((_, res) => res.end("${text}")).listen(process.env.PORT)`,
      );
    const procfile = await requestFor([server("by Procfile"), file("Procfile", "web: node app.js")]);
    const one = await cluster.builder.build(procfile, never);
    expect(one).toMatchObject({ runtime: "procfile", command: "node app.js" });
    expect((await cluster.ask(one, "/", {})).body).toBe("by Procfile");
    const command = await requestFor([server("by command")], { command: "exec node app.js" });
    const other = await cluster.builder.build(command, never);
    expect(other).toMatchObject({ runtime: "command", command: "exec node app.js" });
    expect((await cluster.ask(other, "/", {})).body).toBe("by command");
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

  test("a process that leaves lets its build go on, and the next one tells all of it from the beginning", async () => {
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

  test("tokens and signed URLs are in the build's Secret and nowhere else", async () => {
    const token = "the-token-of-a-private-repository";
    const { git, kube, namespace } = cluster;
    const print = `FROM ${node}\nUSER 0\nRUN env; cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/*/cmdline | tr '\\0' ' '; echo; echo printed; sleep 5\n`;
    git.create("secret", { ...exampleFiles("node"), Dockerfile: print });
    git.protect("secret", token);
    const source = { kind: "git" as const, repository: git.url("secret"), branch: "main", token };
    const request = await requestFor([], { source });
    const building = cluster.builder.build(request, never);
    await heard(request.lines, "printed", building);
    const name = jobName(request.buildId);
    const pod = await podOf(request.buildId);
    const seen = [await kube.get(Job, name, namespace), pod];
    expect(JSON.stringify(seen)).not.toContain(token);
    const secret = await kube.get(Secret, name, namespace);
    expect(Buffer.from(secret?.data?.request ?? "", "base64").toString()).toContain(token);
    expect(secret?.metadata?.ownerReferences?.[0]?.uid).toBe(seen[0]?.metadata?.uid);
    const place = { namespace, name: pod?.metadata?.name ?? "" };
    const whole: string[] = [];
    const log = readPodLog(kube, place, { container: CONTAINER_NAME });
    for await (const line of log) whole.push(line);
    expect(whole.join("\n")).toContain("printed");
    expect(whole.join("\n")).not.toContain(token);
    const { artifact } = await building;
    expect(request.lines.join("\n")).not.toContain(token);
    expect(request.lines.join("\n")).not.toContain("BERTH_BUILD=");
    expect(request.lines).toContain("cat: /proc/1/environ: Permission denied");
    expect(await layersOf(imageRef(artifact) ?? "")).not.toContain(token);
  });

  test("a build's steps reach neither the API server, nor another pod, nor the operator's variables in the image", async () => {
    const { kube, namespace } = cluster;
    const target = { name: "target", namespace, labels: { ask: "yes" } };
    const serve = `require("node:http").createServer((q, r) => r.end("reached")).listen(8080)`;
    await kube.create(Pod, {
      metadata: target,
      spec: {
        containers: [{ name: "app", image: inject("clusterImages").node, command: ["node", "-e", serve] }],
      },
    });
    let ip: string | undefined;
    while (ip === undefined) {
      const pod = await kube.get(Pod, "target", namespace);
      if (pod?.status?.containerStatuses?.[0]?.ready) ip = pod.status.podIP;
      else await delay(100);
    }
    while ((await fetch(`http://${ip}:8080/`).catch(() => undefined))?.status !== 200) await delay(100);
    const api = new URL(kube.config.getCurrentCluster()?.server ?? "");
    const script = `const net = require("node:net");
const reach = (host, port) => new Promise((resolve) => {
  const socket = net.connect({ host, port: Number(port), timeout: 4000 });
  const end = (said) => { socket.destroy(); resolve(said); };
  socket.on("connect", () => end("open")).on("timeout", () => end("closed")).on("error", () => end("closed"));
});
(async () => {
  for (const [name, host, port] of ${JSON.stringify([
    ["api", api.hostname, api.port],
    ["service", "10.96.0.1", "443"],
    ["pod", ip, "8080"],
    ["git", new URL(cluster.git.origin).hostname, new URL(cluster.git.origin).port],
  ])}) console.log(name + " " + (await reach(host, port)));
  console.log("sees " + process.env.OPERATORS_OWN + " " + require("node:fs").existsSync("/var/run/secrets/kubernetes.io"));
})();`;
    const builder = openWith({ OPERATORS_OWN: "a value of the operator" });
    const request = await requestFor([
      file("reach.js", script),
      file("Dockerfile", `FROM ${node}\nCOPY . .\nRUN node reach.js\nCMD ["sleep", "1"]\n`),
    ]);
    const { artifact } = await builder.build(request, never);
    const said = request.lines.filter((line) => /^(api|service|pod|git|sees) /.test(line));
    expect(said).toEqual([
      "api closed",
      "service closed",
      "pod closed",
      "git open",
      "sees a value of the operator false",
    ]);
    expect(await configOf(imageRef(artifact) ?? "")).not.toContain("OPERATORS_OWN");
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
    const eat = "const all = []; for (;;) all.push(Buffer.alloc(10_000_000, 1));";
    const request = await requestFor([
      file("eat.js", eat),
      file("Dockerfile", `FROM ${node}\nCOPY . .\nRUN node eat.js\n`),
    ]);
    const failure = await builder.build(request, never).catch((error) => error);
    expect(failure).toBeInstanceOf(BuildFailure);
    expect(failure.message).toMatch(/memory/);
  });

  const openWith = (variables: Record<string, string>) => cluster.withOptions({ variables });
  const blobs = (ref: string) => cluster.blobsOf(ref);
  const layersOf = async (ref: string) => (await blobs(ref)).layers.toString("latin1");
  const configOf = async (ref: string) => JSON.stringify((await blobs(ref)).config.config);
});
