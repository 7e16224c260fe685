import http from "node:http";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import type { RunSettings } from "../../deploy/cluster/run/run-settings.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { readRun } from "../support/cluster-run.ts";
import { connectKubectl, type Kubectl } from "./kubectl.ts";

let run: RunSettings;
let kube: Kubectl;
let space: { name: string; remove: () => Promise<unknown> };

beforeAll(async () => {
  run = await readRun();
  kube = await connectKubectl();
  space = await kube.namespace();
});

afterAll(() => space?.remove());

const image = () => inject("clusterImages").node;
const serve = 'require("node:http").createServer((_, response) => response.end("hello\\n")).listen(8080)';

const pod = (name: string, spec: object = {}, command = ["node", "-e", serve]) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, namespace: space.name, labels: { app: name } },
  spec: {
    terminationGracePeriodSeconds: 0,
    containers: [{ name: "main", image: image(), command, ...spec }],
  },
});

const service = (name: string) => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name, namespace: space.name },
  spec: { selector: { app: name }, ports: [{ name: "http", port: 80, targetPort: 8080 }] },
});

const policy = (name: string, spec: object) => ({
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name, namespace: space.name },
  spec,
});

const ready = (...names: string[]) =>
  kube.call(
    "wait",
    "-n",
    space.name,
    "--for=condition=Ready",
    "--timeout=120s",
    ...names.map((n) => `pod/${n}`),
  );

/** Returns what a pod gets from a URL: the answer, or `nothing` after two seconds. */
async function ask(from: string, url: string): Promise<string> {
  const script = `fetch(${JSON.stringify(url)}, { signal: AbortSignal.timeout(2000) }).then((a) => a.text()).then(console.log, () => console.log("nothing"))`;
  return (await kube.call("exec", "-n", space.name, from, "--", "node", "-e", script)).trim();
}

/** Returns the status with which the ingress answers for a host. */
const visit = (host: string): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    http
      .get({ host: run.ingress.address, headers: { host } }, (response) => {
        response.resume();
        resolve(response.statusCode);
      })
      .on("error", reject);
  });

test("the node is ready and speaks Kubernetes 1.36", async () => {
  const nodes = JSON.parse(await kube.call("get", "nodes", "-o", "json"));
  const [node] = nodes.items;
  const conditions = node.status.conditions as { type: string; status: string }[];
  expect(conditions.find(({ type }) => type === "Ready")?.status).toBe("True");
  expect(node.status.nodeInfo.kubeletVersion).toMatch(/^v1\.36\./);
});

test("pods run and find each other by the names of their Services", async () => {
  await kube.apply(pod("server"), service("server"), pod("client"));
  await ready("server", "client");
  await eventually("the Service answers", async () => (await ask("client", "http://server/")) === "hello");
});

test("a NetworkPolicy keeps out whom it does not name, and lets in whom it names", async () => {
  await kube.apply(pod("guarded"), service("guarded"), pod("friend"), pod("stranger"));
  await ready("guarded", "friend", "stranger");
  await eventually("all may before", async () => (await ask("stranger", "http://guarded/")) === "hello");
  const from = [{ podSelector: { matchLabels: { app: "friend" } } }];
  const only = {
    podSelector: { matchLabels: { app: "guarded" } },
    policyTypes: ["Ingress"],
    ingress: [{ from }],
  };
  await kube.apply(policy("guard", only));
  await eventually(
    "the stranger is kept out",
    async () => (await ask("stranger", "http://guarded/")) === "nothing",
  );
  expect(await ask("friend", "http://guarded/")).toBe("hello");
});

test("a NetworkPolicy keeps a pod in: it reaches only what the policy names", async () => {
  await kube.apply(pod("near"), service("near"), pod("far"), service("far"), pod("kept"));
  await ready("near", "far", "kept");
  await eventually("it may before", async () => (await ask("kept", "http://far/")) === "hello");
  const to = [{ podSelector: { matchLabels: { app: "near" } } }];
  const dns = { ports: [{ port: 53, protocol: "UDP" }] };
  const egress = { policyTypes: ["Egress"], egress: [{ to }, dns] };
  await kube.apply(policy("keep", { podSelector: { matchLabels: { app: "kept" } }, ...egress }));
  await eventually("it is kept in", async () => (await ask("kept", "http://far/")) === "nothing");
  expect(await ask("kept", "http://near/")).toBe("hello");
});

test("the ingress answers 404 for a host nobody has, 503 for one without pods, and passes on to pods", async () => {
  const host = `web.${space.name}.test`;
  const backend = { service: { name: "web", port: { name: "http" } } };
  const rules = [{ host, http: { paths: [{ path: "/", pathType: "Prefix", backend }] } }];
  const metadata = { name: "web", namespace: space.name };
  const { className: ingressClassName } = run.ingress;
  const ingress = {
    apiVersion: "networking.k8s.io/v1",
    kind: "Ingress",
    metadata,
    spec: { ingressClassName, rules },
  };
  expect(await visit(host)).toBe(404);
  await kube.apply(service("web"), ingress);
  await eventually("the host is known", async () => (await visit(host)) === 503);
  await kube.apply(pod("web"));
  await eventually("the pod answers", async () => (await visit(host)) === 200);
});

test("a volume is made for whom claims it, keeps its files, and goes with the claim", async () => {
  const metadata = { name: "data", namespace: space.name };
  const spec = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "10Mi" } } };
  const mounted = (name: string, script: string) => {
    const made = pod(name, { volumeMounts: [{ name: "data", mountPath: "/data" }] }, ["sh", "-c", script]);
    const volumes = [{ name: "data", persistentVolumeClaim: { claimName: "data" } }];
    return { ...made, spec: { ...made.spec, restartPolicy: "Never", volumes } };
  };
  const done = (name: string) =>
    kube.call(
      "wait",
      "-n",
      space.name,
      "--for=jsonpath={.status.phase}=Succeeded",
      "--timeout=120s",
      `pod/${name}`,
    );
  await kube.apply({ apiVersion: "v1", kind: "PersistentVolumeClaim", metadata, spec });
  await kube.apply(mounted("writer", "echo kept > /data/word"));
  await done("writer");
  await kube.call("delete", "pod", "-n", space.name, "writer");
  await kube.apply(mounted("reader", "cat /data/word"));
  await done("reader");
  expect(await kube.call("logs", "-n", space.name, "reader")).toBe("kept\n");
  const volume = await kube.call("get", "pvc", "-n", space.name, "data", "-o", "jsonpath={.spec.volumeName}");
  await kube.call("delete", "-n", space.name, "pod/reader", "pvc/data");
  await eventually(
    "the volume is gone",
    async () => (await kube.call("get", "pv", volume, "--ignore-not-found")) === "",
  );
});
