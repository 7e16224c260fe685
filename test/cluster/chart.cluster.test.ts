import http from "node:http";
import { text } from "node:stream/consumers";
import { CoreV1Api, KubeConfig, type V1Deployment, type V1Pod, type V1Secret } from "@kubernetes/client-node";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import * as kinds from "../../services/deployer/kube/kinds.ts";
import { managed } from "../../services/deployer/kube/names.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { chartFolder, helm } from "../contracts/chart/render.ts";
import { openPlatform, type Platform } from "../support/world.ts";

const { namespace } = inject("platform")!;
let world: Platform;
let kube: Kube;
let release: string;
/** What the names of the chart's objects begin with. */
let prefix: string;

beforeAll(async () => {
  world = await openPlatform();
  kube = connectKube();
  [{ name: release }] = JSON.parse(await helm("list", "-n", namespace, "-o", "json"));
  const gateways = await deployments("app.kubernetes.io/component=gateway");
  prefix = gateways[0]!.metadata!.name!.replace(/-gateway$/, "");
});

afterAll(() => world?.stop());

const deployments = async (labels = "app.kubernetes.io/component") =>
  (await kube.list<V1Deployment>(kinds.Deployment, { namespace, labels })).items;

const secrets = async () => {
  const { items } = await kube.list<V1Secret>(kinds.Secret, { namespace });
  const own = items.filter(({ type }) => !type?.startsWith("helm.sh/"));
  return Object.fromEntries(own.map(({ metadata, data }) => [metadata!.name, data]));
};

const upgrade = (...args: string[]) =>
  helm("upgrade", release, chartFolder, "-n", namespace, "--reuse-values", "--wait", ...args);

test("helm test asks the gateway through its Service", async () => {
  expect(await helm("test", release, "-n", namespace)).toContain("Phase:          Succeeded");
});

describe("an upgrade", () => {
  test("that changes nothing keeps every secret and every pod", async () => {
    const generations = async () =>
      (await deployments()).map(({ metadata }) => [metadata!.name, metadata!.generation]);
    const before = [await secrets(), await generations()];
    await upgrade();
    expect([await secrets(), await generations()]).toEqual(before);
  }, 300_000);

  test("that rolls every process fails no request, reads and writes alike", async () => {
    const { P } = await world.environment();
    const asked = ask(world, `${P}/variables`);
    await eventually("requests flow", async () => asked.answers.length > 20);
    const before = new Set(
      (await pods("app.kubernetes.io/component=gateway")).map((pod) => pod.metadata!.uid),
    );
    await upgrade("--set-string", `defaults.podAnnotations.rolled=at-${Date.now()}`);
    await eventually("the old pods are gone", async () =>
      (await pods("app.kubernetes.io/component=gateway")).every((pod) => !before.has(pod.metadata!.uid)),
    );
    await asked.stop();
    expect(asked.answers.filter((answer) => !/^20[01]$/.test(answer))).toEqual([]);
    expect(asked.answers.length).toBeGreaterThan(100);
  }, 600_000);
});

const pods = async (labels: string) => (await kube.list<V1Pod>(kinds.Pod, { namespace, labels })).items;

/** Writes and reads again and again on kept connections until `stop`; gives the statuses. */
function ask({ baseUrl, ownerToken }: Platform, path: string) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
  const answers: string[] = [];
  let stopped = false;
  const send = (method: string, body?: string) =>
    new Promise<string>((resolve) => {
      const failed = (error: Error) => resolve(`${method} ${error.message}`);
      const headers = { authorization: `Bearer ${ownerToken}`, "content-type": "application/json" };
      http
        .request(baseUrl + path, { method, agent, headers }, (response) =>
          text(response).then((said) => resolve(said && String(response.statusCode)), failed),
        )
        .on("error", failed)
        .end(body);
    });
  const loop = async (worker: number) => {
    for (let n = 0; !stopped; n++) {
      answers.push(await send("POST", JSON.stringify({ name: `V${worker}_${n}`, value: "x" })));
      answers.push(await send("GET"));
    }
  };
  const done = Promise.all([0, 1].map(loop));
  return {
    answers,
    stop: async () => {
      stopped = true;
      await done;
      agent.destroy();
    },
  };
}

describe("the deployer's rights", () => {
  let deployer: ReturnType<typeof as>;
  let own: string;

  beforeAll(async () => {
    own = `${prefix}-env-of-a-test`;
    deployer = as(`system:serviceaccount:${namespace}:${prefix}-deployer`);
  });
  afterAll(() => kube.remove(kinds.Namespace, own));

  const space = (name: string, labels: Record<string, string>) => ({ metadata: { name, labels } });
  const restricted = { ...managed, "pod-security.kubernetes.io/enforce": "restricted" };
  const binding = (where: string, role = `${prefix}-environment`, subject = `${prefix}-deployer`) => ({
    metadata: { name: "berth-deployer", namespace: where },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: role },
    subjects: [{ kind: "ServiceAccount", name: subject, namespace }],
  });

  test("reach into namespaces that it made, once it has bound its role there", async () => {
    await deployer.apply(kinds.Namespace, space(own, restricted));
    expect(await refusal(deployer.list(kinds.Secret, { namespace: own }))).toMatch("cannot list resource");
    await deployer.apply(kinds.RoleBinding, binding(own));
    await eventually("the role holds", async () => {
      const answer = await refusal(deployer.list(kinds.Secret, { namespace: own }));
      return answer === "";
    });
  });

  test.each([
    ["without Berth's label", (name: string) => space(name, {}), "only namespaces that it made"],
    ["without Pod Security", (name: string) => space(name, managed), 'enforce Pod Security \\"restricted\\"'],
    ["of another prefix", () => space("somebody-env-else", restricted), "only namespaces that it made"],
    ["that is the cluster's", () => space("kube-system", restricted), "only namespaces that it made"],
  ])("do not make or take a namespace %s", async (_what, make, sentence) => {
    expect(await refusal(deployer.apply(kinds.Namespace, make(`${prefix}-env-another`)))).toContain(sentence);
  });

  test("do not bind another role, another account, or anything elsewhere", async () => {
    await deployer.apply(kinds.Namespace, space(own, restricted));
    const bind = (object: ReturnType<typeof binding>) => refusal(deployer.create(kinds.RoleBinding, object));
    expect(await bind(binding(own, "cluster-admin"))).toMatch(/not currently held|only the role/);
    expect(await bind(binding(own, undefined, "default"))).toContain("only to itself");
    expect(await bind(binding("kube-system"))).toContain("only in namespaces that it made");
    expect(await bind(binding(namespace))).toContain("only in namespaces that it made");
  });

  test("do not read Secrets of the platform or of the cluster", async () => {
    for (const where of [{ namespace }, { namespace: "kube-system" }, {}])
      expect(await refusal(deployer.list(kinds.Secret, where))).toContain("cannot list resource");
  });

  test("do not delete what they did not make", async () => {
    for (const name of [namespace, "kube-node-lease"])
      expect(await refusal(deployer.remove(kinds.Namespace, name))).toContain("only namespaces that it made");
  });
});

/** The API as another account sees it. */
function as(user: string): Kube {
  const config = new KubeConfig();
  config.loadFromDefault();
  const users = config.users.map((one) => ({ ...one, impersonateUser: user }));
  config.loadFromOptions({ ...config, users });
  return connectKube(config);
}

/** What the API says against it; "" when it does it. */
async function refusal(doing: Promise<unknown>): Promise<string> {
  return doing.then(
    () => "",
    (error: { body?: unknown; message: string }) => String(error.body ?? error.message),
  );
}

describe("the walls", () => {
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
    // Uploads go straight to the object store, so it may have a door of its own.
    const open = (await reached(outside, targets)).filter((one) => one !== "object-store");
    expect(open).toEqual(["gateway"]);
  });

  test("a build reaches no process of the platform, no database, and not the cluster's API", async () => {
    const builds = await buildsNamespace();
    const targets = {
      identity: `http://${prefix}-identity.${namespace}:8080/healthz`,
      gateway: gateway(),
      api: "https://kubernetes.default.svc:443/version",
      ...(await serversOf()),
    };
    const open = await reached(builds, targets);
    expect(open.filter((one) => one !== "object-store")).toEqual([]);
  });

  async function buildsNamespace(): Promise<string> {
    const { items } = await kube.list(kinds.Namespace, { labels: "app.kubernetes.io/component=builds" });
    return items.map(({ metadata }) => metadata!.name!).find((name) => name.startsWith(prefix))!;
  }

  /** Servers that the chart brought. */
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

/** Which of the targets a pod of a namespace gets a connection to. */
async function reached(from: string, targets: Record<string, string>): Promise<string[]> {
  const look = `const { connect } = require("node:net");
    const open = (url) => new Promise((done) => {
      const { hostname, port } = new URL(url);
      const socket = connect({ host: hostname, port: port || 443, timeout: 3000 }, () => done(true));
      socket.on("error", () => done(false)).on("timeout", () => done(false));
    });
    (async () => {
      // A policy may take a moment to hold for a new pod.
      await new Promise((done) => setTimeout(done, 3000));
      const found = [];
      for (const [name, url] of Object.entries(${JSON.stringify(targets)})) if (await open(url)) found.push(name);
      console.log(JSON.stringify(found));
      process.exit();
    })();`;
  const pod = {
    metadata: { name: `look-${Date.now()}`, namespace: from },
    spec: {
      restartPolicy: "Never",
      automountServiceAccountToken: false,
      containers: [
        {
          name: "look",
          image: inject("clusterImages").node,
          command: ["node", "-e", look],
          resources: { requests: { cpu: "10m", memory: "64Mi" }, limits: { cpu: "1", memory: "128Mi" } },
        },
      ],
    },
  };
  await kube.create(kinds.Pod, pod);
  const { name } = pod.metadata;
  await eventually("the pod has looked", async () => {
    const { status } = (await kube.get<V1Pod>(kinds.Pod, name, from))!;
    return status?.phase === "Succeeded" || status?.phase === "Failed";
  });
  const core = kube.config.makeApiClient(CoreV1Api);
  const said = await core.readNamespacedPodLog({ name, namespace: from });
  await kube.remove(kinds.Pod, name, from);
  return JSON.parse(said);
}
