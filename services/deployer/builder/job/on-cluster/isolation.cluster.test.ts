import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, inject, test } from "vitest";
import { never } from "../../../../../test/contracts/ports/builder/harness.ts";
import { exampleFiles } from "../../../../../test/support/archives.ts";
import { Job, Pod, Secret } from "../../../kube/kinds.ts";
import { readPodLog } from "../../../kube/pods/pod-log.ts";
import { imageRef } from "../../../terms/artifact.ts";
import { CONTAINER_NAME, jobName } from "../job-manifest.ts";
import { tryBuild } from "../node-check/trial.ts";
import type { ClusterHarness } from "./testing.ts";
import { file, heard, onCluster } from "./testing-builds.ts";

describe("what builds on a cluster see", () => {
  const tools = onCluster();
  const { node, requestFor, podOf } = tools;
  let cluster: ClusterHarness;
  beforeAll(() => {
    cluster = tools.cluster();
  });

  test("a trial reports that builds work, leaves nothing behind, and says in a sentence what the node lacks", async () => {
    const { kube, namespace, options } = cluster;
    const lines: string[] = [];
    const trial = (changes: Partial<typeof options>) =>
      tryBuild({ ...options, ...changes }, (line) => lines.push(line)).catch(String);
    expect(await trial({ appArmorProfile: "unconfined" })).toBeUndefined();
    expect(lines).toContain("Pushing image");
    expect((await kube.list(Job, { namespace })).items).toEqual([]);
    // As on a cluster where a policy gives each pod the default profile.
    const create: typeof kube.create = (kind, object) => {
      const text = JSON.stringify(object).replace(
        /"seccompProfile":\{[^}]*\}/,
        '"seccompProfile":{"type":"RuntimeDefault"}',
      );
      return kube.create(kind, JSON.parse(text));
    };
    expect(await trial({ kube: { ...kube, create } })).toContain("A seccomp profile forbids user namespaces");
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
    const builder = cluster.withOptions({ variables: { OPERATORS_OWN: "a value of the operator" } });
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

  const layersOf = async (ref: string) => (await cluster.blobsOf(ref)).layers.toString("latin1");
  const configOf = async (ref: string) => JSON.stringify((await cluster.blobsOf(ref)).config.config);
});
