import { CoreV1Api, type V1Pod, type V1ValidatingAdmissionPolicyBinding } from "@kubernetes/client-node";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { connectKube, isStatus, type Kind, type Kube } from "../../services/deployer/kube/client.ts";
import * as kinds from "../../services/deployer/kube/kinds.ts";
import { label, selector } from "../../services/deployer/kube/names.ts";
import { listenAt } from "../../services/deployer/runtime/kubernetes/testing.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { open, settled } from "../support/apps.ts";
import { readRun } from "../support/cluster-run.ts";
import { openPlatform } from "../support/world.ts";
import { findPrefix } from "./prefix.ts";
import { podsOf } from "./web-service.ts";

const { namespace } = inject("platform")!;
let kube: Kube;
let prefix: string;

beforeAll(async () => {
  kube = connectKube();
  prefix = await findPrefix(kube, namespace);
});

describe("the network policies", () => {
  const outside = `${namespace}-outside`;
  const gateway = () => `http://${prefix}-gateway.${namespace}:${servicePort}/healthz`;
  let servicePort: number;

  beforeAll(async () => {
    const service = await kube.get(kinds.Service, `${prefix}-gateway`, namespace);
    servicePort = service!.spec!.ports![0]!.port;
    await kube.apply(kinds.Namespace, { metadata: { name: outside } });
  });
  afterAll(() => kube.remove(kinds.Namespace, outside));

  test("a stranger reaches the gateway, and nothing behind it", async () => {
    const targets = {
      gateway: gateway(),
      metrics: `http://${prefix}-gateway-metrics.${namespace}:9090/metrics`,
      identity: `http://${prefix}-identity.${namespace}:8080/healthz`,
      deployer: `http://${prefix}-deployer.${namespace}:8080/metrics`,
      ...(await serversOf()),
    };
    // Uploads go straight to the object store, so it may be exposed.
    const open = (await findReachable(outside, targets)).filter((one) => one !== "object-store");
    expect(open).toEqual(["gateway"]);
  });

  test("an app finds names by the cluster's DNS, and asks no other, even where nobody else may be reached", async () => {
    const { host } = await readRun();
    await listenAt(host, [53]);
    const world = await openPlatform();
    const { E, S, environmentId } = await world.environment();
    const serves = 'require("node:http").createServer((q, r) => r.end()).listen(process.env.PORT)';
    const config = { minReadySeconds: 0, command: `node -e '${serves}'` };
    await world.must("POST", `${E}/services`, { name: "web", type: "web", config });
    await world.must("POST", `${S("web")}/deploy`, { image: inject("clusterImages").node });
    await settled(world, S("web"), 1);
    const [home] = (
      await kube.list(kinds.Namespace, { labels: selector({ [label("environment")]: environmentId }) })
    ).items;
    const targets = { dns: `tcp://${host}:53`, platform: gateway(), lookup: "lookup://web" };
    const labels = { [label("kind")]: "app" };
    expect(await findReachable(home!.metadata!.name!, targets, labels)).toEqual(["lookup"]);
    await world.stop();
  });

  test("a private service answers its neighbours by its name, and the ingress controller has no way to it", async () => {
    const { ingress } = await readRun();
    const world = await openPlatform();
    const { E, S, environmentId } = await world.environment();
    const image = inject("clusterImages").node;
    const run = async (name: string, script: string, more: object) => {
      const config = { minReadySeconds: 0, command: `node -e '${script}'`, ...more };
      const { id } = await world.must<{ id: string }>("POST", `${E}/services`, { name, type: "web", config });
      await world.must("POST", `${S(name)}/deploy`, { image });
      await settled(world, S(name), 1);
      const { url } = await world.must<{ url?: string }>("GET", S(name));
      return { id, url };
    };
    const serve = (answer: string) =>
      `require("node:http").createServer(async (q, r) => r.end(${answer})).listen(process.env.PORT)`;
    const inner = await run("inner", serve('"inner"'), { public: false, metricsPath: "/metrics" });
    const outer = await run("outer", serve('await (await fetch("http://inner")).text()'), {});
    expect(inner.url).toBeUndefined();
    const [pod] = await podsOf(kube, inner.id);
    expect(pod?.metadata?.annotations).toMatchObject({
      "prometheus.io/path": "/metrics",
      "prometheus.io/port": "8080",
    });
    expect((await open(outer.url!)).body).toBe("inner");
    const home = { [label("environment")]: environmentId };
    const [found] = (await kube.list(kinds.Namespace, { labels: selector(home) })).items;
    const { name = "" } = found!.metadata!;
    const ingresses = await kube.list(kinds.Ingress, { namespace: name });
    expect(ingresses.items.map(({ metadata }) => metadata?.name)).toEqual(["outer"]);
    const targets = { inner: `tcp://inner.${name}:80`, outer: `tcp://outer.${name}:80` };
    expect(await findReachable(ingress.namespace, targets)).toEqual(["outer"]);
    await world.stop();
  });

  test("a build reaches no process of the platform, no database, and not the cluster's API", async () => {
    const builds = await buildsNamespace();
    const targets = {
      identity: `http://${prefix}-identity.${namespace}:8080/healthz`,
      gateway: gateway(),
      api: "https://kubernetes.default.svc:443/version",
      ...(await serversOf()),
    };
    const open = await unrefused(builds, () => findReachable(builds, targets));
    expect(open.filter((one) => one !== "object-store")).toEqual([]);
  });

  async function buildsNamespace(): Promise<string> {
    const { items } = await kube.list(kinds.Namespace, { labels: "app.kubernetes.io/component=builds" });
    return items.map(({ metadata }) => metadata!.name!).find((name) => name.startsWith(prefix))!;
  }

  /** Returns the addresses of the servers that the chart installed. */
  async function serversOf(): Promise<Record<string, string>> {
    const known = { postgres: 5432, nats: 4222, "object-store": 7070 };
    const sets = await kube.list(kinds.StatefulSet, { namespace });
    const there = Object.entries(known).filter(([part]) =>
      sets.items.some(({ metadata }) => metadata!.name === `${prefix}-${part}`),
    );
    return Object.fromEntries(
      there.map(([part, port]) => [part, `tcp://${prefix}-${part}.${namespace}:${port}`]),
    );
  }
});

/** Does something while the namespace of builds admits other pods than those of builds. */
async function unrefused<T>(builds: string, work: () => Promise<T>): Promise<T> {
  const kind: Kind<V1ValidatingAdmissionPolicyBinding> = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingAdmissionPolicyBinding",
    plural: "validatingadmissionpolicybindings",
  };
  const metadata = { name: `${namespace}-${builds}` };
  const decide = (action: string) => {
    const binding = { metadata, spec: { validationActions: [action] } };
    return kube.merge(kind, binding);
  };
  await decide("Audit");
  return work().finally(() => decide("Deny"));
}

/** Returns the names of the targets that a pod of a namespace can connect to, or look up. */
async function findReachable(
  from: string,
  targets: Record<string, string>,
  labels: Record<string, string> = {},
): Promise<string[]> {
  const script = `const { connect } = require("node:net");
    const open = (url) => new Promise((done) => {
      const { hostname, port, protocol } = new URL(url);
      if (protocol === "lookup:") return require("node:dns").lookup(hostname, (error) => done(!error));
      const socket = connect({ host: hostname, port: port || 443, timeout: 3000 }, () => done(true));
      socket.on("error", () => done(false)).on("timeout", () => done(false));
    });
    (async () => {
      // A policy may take a moment to apply to a new pod.
      await new Promise((done) => setTimeout(done, 3000));
      const found = [];
      for (const [name, url] of Object.entries(${JSON.stringify(targets)})) if (await open(url)) found.push(name);
      console.log(JSON.stringify(found));
      process.exit();
    })();`;
  const pod = {
    metadata: { name: `connect-${Date.now()}`, namespace: from, labels },
    spec: {
      restartPolicy: "Never",
      securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
      automountServiceAccountToken: false,
      containers: [
        {
          name: "connect",
          image: inject("clusterImages").node,
          command: ["node", "-e", script],
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
          resources: { requests: { cpu: "10m", memory: "64Mi" }, limits: { cpu: "1", memory: "128Mi" } },
        },
      ],
    },
  };
  const { name } = pod.metadata;
  await eventually("the cluster admits the pod", () =>
    kube.create(kinds.Pod, pod).catch((error) => {
      if (!isStatus(error, 422)) throw error;
      return undefined;
    }),
  );
  await eventually("the pod has ended", async () => {
    const { status } = (await kube.get<V1Pod>(kinds.Pod, name, from))!;
    return status?.phase === "Succeeded" || status?.phase === "Failed";
  });
  const core = kube.config.makeApiClient(CoreV1Api);
  const output = await core.readNamespacedPodLog({ name, namespace: from });
  await kube.remove(kinds.Pod, name, from);
  return JSON.parse(output);
}
