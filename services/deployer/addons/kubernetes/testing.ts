import { randomBytes } from "node:crypto";
import { Client } from "minio";
import { inject } from "vitest";
import { readRun } from "../../../../test/support/cluster-run.ts";
import { newId } from "../../../kit/ids.ts";
import { createLog } from "../../../kit/log.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { connectKube } from "../../kube/client.ts";
import * as kinds from "../../kube/kinds.ts";
import { label, labelsOf, namespaceOf, selector } from "../../kube/names.ts";
import { readPodLog } from "../../kube/pods/pod-log.ts";
import { createS3Store, removeAll } from "../../store/s3/adapter.ts";
import type { AddonType } from "../../terms/services.ts";
import { addonKeys } from "../keys.ts";
import type { Addon } from "../port.ts";
import { createKubernetesAddons, type KubernetesAddonsOptions } from "./adapter.ts";
import { type CnpgAddonsOptions, createCnpgAddons } from "./cnpg/adapter.ts";
import { archivePrefix } from "./cnpg/archive-manifests.ts";
import type { PostgresEngine } from "./config.ts";
import { createAddonEngines } from "./engines.ts";
import { createPoolers } from "./pooler/adapter.ts";
import { programs } from "./server/server-scripts.ts";

function clientOptions(endpoint: string) {
  const { hostname, port, protocol } = new URL(endpoint);
  return { endPoint: hostname, port: Number(port), useSSL: protocol === "https:" };
}

type More = {
  images?: Record<AddonType, string>;
  earlierImages?: Partial<Record<AddonType, string[]>>;
  storage?: { size: string; className?: string };
  copies?: KubernetesAddonsOptions["copies"];
};

export function newAddon(type: AddonType, environmentId = newId("env")): Addon {
  const [serviceId, accountId, projectId] = [newId("svc"), newId("acc"), newId("prj")];
  const name = `${type}-${serviceId.slice(-4)}`;
  return { serviceId, accountId, projectId, environmentId, name, type, size: "nano", generation: 0 };
}

/** The cluster waits for five minutes at most before it starts a server again. */
export const RESTART_MS = 330_000;

/** Statements after which a PostgreSQL server has room for neither data nor what it writes ahead. */
const FILLING = [
  "create table if not exists filler (t text)",
  `do $do$ begin loop
     insert into filler select repeat(md5(g::text), 30) from generate_series(1, 10000) g; commit;
   end loop; end $do$`,
  `do $do$ begin for n in 1..100 loop
     perform pg_logical_emit_message(false, '', repeat('x', 1000000));
   end loop; end $do$`,
];

/** Writes 2 GiB of write-ahead log and has at most 200 MiB of data. */
export const REWRITING = `do $do$ begin
  create table rewritten (t text); commit;
  for round in 1..20 loop
    truncate rewritten;
    insert into rewritten select repeat(md5(g::text), 30) from generate_series(1, 100000) g; commit;
  end loop; end $do$`;

const toDns = { ports: [{ port: 53, protocol: "UDP" }] };

/** Addons on the cluster of KUBECONFIG, in namespaces of this run alone: fenced in, as every environment is. */
export function addonsForTest() {
  const kube = connectKube();
  const log = createLog("deployer", process.env.LOG_LEVEL ?? "silent");
  const namespacePrefix = `addons-${randomBytes(3).toString("hex")}`;
  const images = inject("clusterImages");
  const made = new Set<string>();
  const opened: { stop: () => Promise<void> }[] = [];
  const spaceOf = (environmentId: string) => namespaceOf(namespacePrefix, environmentId);

  const address = ({ type, environmentId, name }: Addon) => ({
    host: `${name}.${spaceOf(environmentId)}.svc`,
    port: programs[type].port,
  });

  const hasNamespace = (name: string) => made.has(name);
  async function ensureNamespace({ environmentId }: { environmentId: string }): Promise<void> {
    const name = spaceOf(environmentId);
    made.add(name);
    const labels = { ...labelsOf({ environmentId }), "pod-security.kubernetes.io/enforce": "restricted" };
    await kube.apply(kinds.Namespace, { metadata: { name, labels } });
    await kube.apply(kinds.NetworkPolicy, {
      metadata: { name: "deny", namespace: name },
      spec: {
        podSelector: {},
        policyTypes: ["Ingress", "Egress"],
        egress: [{ to: [{ podSelector: {} }] }, toDns],
      },
    });
  }

  const poolers = createPoolers({ kube, image: images.pgbouncer, namespacePrefix, user: 999, dns: toDns });

  /** Returns what an addon publishes; with `pooled`, its keys lead through its pooler. */
  const keysOf = (addon: Addon, password: string, { pooled = false } = {}) =>
    Object.fromEntries(
      addonKeys(
        addon.type,
        address(addon),
        addon.serviceId,
        password,
        ...(pooled ? [poolers.address(addon)] : []),
      ).map(({ key, value }) => [key, value]),
    ) as Record<"HOST" | "PORT" | "PASSWORD" | "URL" | "POOLED_URL", string>;

  /** Runs a script in a pod of an environment, as an app would; gives its output and how it ended. */
  async function inPod(environmentId: string, image: string, script: string, env: Record<string, string>) {
    const namespace = spaceOf(environmentId);
    const name = `client-${randomBytes(3).toString("hex")}`;
    await ensureNamespace({ environmentId });
    await eventually("pods can be made", () =>
      kube
        .create(kinds.Pod, {
          metadata: { name, namespace },
          spec: {
            restartPolicy: "Never",
            automountServiceAccountToken: false,
            securityContext: {
              runAsNonRoot: true,
              runAsUser: 1000,
              seccompProfile: { type: "RuntimeDefault" },
            },
            containers: [
              {
                name: "client",
                image,
                command: ["/bin/sh", "-c", script],
                env: Object.entries(env).map(([key, value]) => ({ name: key, value })),
                securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
              },
            ],
          },
        })
        .catch(() => undefined),
    );
    const { status } = await eventually("the client has ended", async () => {
      const pod = await kube.get(kinds.Pod, name, namespace);
      return ["Succeeded", "Failed"].includes(pod?.status?.phase ?? "") && pod!;
    });
    const lines: string[] = [];
    for await (const line of readPodLog(kube, { namespace, name }, { container: "client" }))
      lines.push(line.slice(line.indexOf(" ") + 1));
    await kube.remove(kinds.Pod, name, namespace);
    return { ok: status?.phase === "Succeeded", said: lines.join("\n").trim() };
  }

  /** Speaks to an addon with its own client. */
  const ask = (
    addon: Addon,
    password: string,
    words: string,
    from = addon.environmentId,
    // The network of a cluster takes a while to learn where a new pod is. From elsewhere, a refusal is what is expected.
    { pooled = false, tries = from === addon.environmentId ? 120 : 10 } = {},
  ) => {
    const { URL: direct, POOLED_URL, HOST, PORT, PASSWORD } = keysOf(addon, password, { pooled });
    const url = pooled ? POOLED_URL : direct;
    const question =
      addon.type === "postgres"
        ? `PGCONNECT_TIMEOUT=5 psql "$URL" -v ON_ERROR_STOP=1 -qAtc "$QUESTION" 2>&1`
        : `timeout 5 redis-cli -e -h "$HOST" -p "$PORT" $QUESTION 2>&1`;
    const script = `for try in $(seq ${tries}); do said=$(${question}); end=$?
    if [ $end = 124 ]; then [ $try -lt 3 ] || break; else echo "$said" | grep -q refused || break; fi
    sleep 0.5; done
    echo "$said"; exit $end`;
    return inPod(from, images[addon.type], script, {
      ...{ URL: url, HOST, PORT, REDISCLI_AUTH: PASSWORD, QUESTION: words },
    });
  };

  /** Fills the volume of a postgres addon until its server has stopped, as `isFull` tells. */
  async function fillVolume(addon: Addon, password: string, isFull: () => Promise<boolean>): Promise<void> {
    // None waits until the server is back, with more room to fill; the longer it is down, the later it is started again.
    const fill = async () => {
      for (const statement of FILLING)
        if (!(await isFull())) await ask(addon, password, statement, addon.environmentId, { tries: 10 });
    };
    await eventually("the server stops", async () => (await isFull()) || (await fill()), RESTART_MS);
  }

  const options = {
    ...{ kube, log, namespacePrefix, ensureNamespace, hasNamespace, images, user: 999 },
    ...{ watch: "cluster" as const, storage: { size: "64Mi" }, patchImages: { postgres: [], redis: [] } },
    dns: toDns,
  };

  return {
    kube,
    images,
    spaceOf,
    ensureNamespace,
    keysOf,
    poolers,
    inPod,
    ask,
    fillVolume,
    /** The adapter as a deployer of its own has it. */
    open(more: More = {}) {
      const adapter = createKubernetesAddons({ ...options, ...more });
      opened.push(adapter);
      return adapter;
    },
    /** The same with PostgreSQL on CloudNativePG, where new addons have this engine. */
    openEngines(engine: PostgresEngine, more: Partial<CnpgAddonsOptions> = {}) {
      const cnpg = createCnpgAddons({
        ...{ ...options, images: [images.postgres], operatorNamespace: "cnpg-system" },
        egress: [
          {
            ports: [53, 443, 6443].flatMap((port) => ["TCP", "UDP"].map((protocol) => ({ port, protocol }))),
          },
        ],
        ...more,
      });
      const { copies } = more;
      const sets = createKubernetesAddons({ ...options, ...(copies && { copies }) });
      const engines = createAddonEngines({
        ...{ ...options, engine, sets, poolers },
        ...(engine !== "statefulset" && { cnpg }),
      });
      opened.push(engines);
      return engines;
    },
    /** Gives the image of PostgreSQL another tag in the registry of the run, and returns its name for nodes. */
    async tagPostgres(tag: string): Promise<string> {
      const { registry, images } = await readRun();
      const [name, held] = images.postgres.split(":");
      const url = (of: string) => `http://${registry.push}/v2/${name}/manifests/${of}`;
      const types = ["oci.image.manifest.v1", "docker.distribution.manifest.v2"];
      const accept = types.map((type) => `application/vnd.${type}+json`).join(", ");
      const manifest = await fetch(url(held!), { headers: { accept } });
      const headers = { "content-type": manifest.headers.get("content-type")! };
      const { ok } = await fetch(url(tag), { method: "PUT", headers, body: await manifest.text() });
      if (!ok) throw new Error(`the registry takes no tag ${tag}`);
      return `${registry.pull}/${name}:${tag}`;
    },
    /** Lets this machine connect to the pods of an environment, where a pod would be too small for what is asked. */
    async admitThisMachine(environmentId: string): Promise<void> {
      const { network } = await readRun();
      await kube.apply(kinds.NetworkPolicy, {
        metadata: { name: "this-machine", namespace: spaceOf(environmentId) },
        spec: { podSelector: {}, ingress: [{ _from: [{ ipBlock: { cidr: `${network.host}/32` } }] }] },
      });
    },
    /** A bucket of this run alone, and the settings of the run. */
    async startStore() {
      const run = await readRun();
      const place = { bucket: namespacePrefix, region: "us-east-1", log };
      const store = createS3Store({ ...run.objectStore, ...place });
      await store.start();
      return { run, store };
    },
    /** Another bucket, for archives of addons which reach it at `endpoint`, and how many objects it has of one. */
    async startArchive(endpoint?: string) {
      const { run, store } = await this.startStore();
      const place = { ...run.objectStore, bucket: `${namespacePrefix}-archive`, region: "us-east-1" };
      await createS3Store({ ...place, log }).start();
      const theirs = { ...place, endpoint: endpoint ?? place.endpoint };
      const port = Number(new URL(theirs.endpoint).port);
      const to = [{ ports: [{ port, protocol: "TCP" }] }];
      const { accessKey, secretKey } = place;
      const client = new Client({ ...clientOptions(place.endpoint), accessKey, secretKey });
      return {
        ...{ run, store },
        archive: {
          archive: { ...theirs, days: 7, to },
          emptyArchive: (prefix: string) => removeAll(place, prefix),
        },
        async archived({ serviceId }: Addon): Promise<number> {
          const all = client.listObjectsV2(place.bucket, archivePrefix(serviceId), true);
          return (await all.toArray()).length;
        },
      };
    },
    /** Lets the copies of an addon's data reach the object store, as an environment's policy does. */
    async admitCopies({ environmentId }: Addon): Promise<void> {
      await kube.apply(kinds.NetworkPolicy, {
        metadata: { name: "copies", namespace: spaceOf(environmentId) },
        spec: {
          podSelector: { matchLabels: { [label("kind")]: "copy" } },
          policyTypes: ["Egress"],
          egress: [
            {
              ports: [
                { port: Number(new URL((await readRun()).objectStore.endpoint).port), protocol: "TCP" },
              ],
            },
          ],
        },
      });
    },
    /** The kinds of everything of an addon that is in the cluster. */
    async leftOf({ serviceId, environmentId }: { serviceId: string; environmentId: string }) {
      const namespace = spaceOf(environmentId);
      const own = [label("serviceId"), label("pooler")].map((name) => selector({ [name]: serviceId }));
      const { StatefulSet, Service, Secret, NetworkPolicy, Pod, PersistentVolumeClaim } = kinds;
      const all = [
        kinds.PostgresCluster,
        StatefulSet,
        kinds.Deployment,
        Service,
        Secret,
        NetworkPolicy,
        Pod,
        PersistentVolumeClaim,
      ];
      const found = all.flatMap((kind) =>
        own.map(async (labels) => {
          const { items } = await kube.list(kind as typeof Pod, { namespace, labels });
          return items.map(() => kind.kind);
        }),
      );
      return (await Promise.all(found)).flat().sort();
    },
    async stop(): Promise<void> {
      await Promise.all(opened.map((one) => one.stop()));
      for (const name of made) await kube.remove(kinds.Namespace, name);
    },
  };
}
