import { randomBytes } from "node:crypto";
import { type DescMessage, fromBinary, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import * as deployerEvents from "../../proto/gen/berth/deployer/v1/events_pb.ts";
import { InternalService as DeployerInternal } from "../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { InternalService } from "../../proto/gen/berth/variables/v1/internal_pb.ts";
import { VariablesService } from "../../proto/gen/berth/variables/v1/variables_pb.ts";
import { testNats } from "../../test/support/servers/nats.ts";
import { newId } from "../kit/ids.ts";
import { createLog } from "../kit/log.ts";
import { createPool } from "../kit/postgres/db.ts";
import { readConfig } from "../kit/process/config.ts";
import type { RoleName } from "../kit/rpc/caller-token.ts";
import { notFound } from "../kit/rpc/refusals.ts";
import { openEvents } from "../kit/testing/events.ts";
import { startNeighbours } from "../kit/testing/neighbours.ts";
import { clientAs, migratedDatabase, testKeys } from "../kit/testing/testing.ts";
import { fields } from "./config.ts";
import { start } from "./main.ts";

export const testKek = `k1:${Buffer.alloc(32, 9).toString("base64")}`;

type Node = {
  id: string;
  accountId: string;
  parentId?: string;
  name?: string;
  type?: string;
  namedAt?: Timestamp;
};
type Published = {
  ready: boolean;
  revision: bigint;
  keys: { key: string; value: string; sensitive: boolean }[];
};

/** The deployer as variables sees it: a real server that answers scopes and addon keys from memory. */
export async function startTree() {
  const nodes = new Map<string, Node>();
  const keys = new Map<string, Published>();
  const envs = new Map<string, Record<string, string>>();
  const revisions = new Map<string, number>();
  const asked = { scopes: 0, keys: 0, envs: 0 };
  const chain = (node: Node): Node[] =>
    node.parentId ? [...chain(nodes.get(node.parentId)!), node] : [node];
  const childrenOf = (id: string) => [...nodes.values()].filter((node) => node.parentId === id);
  const handlers: Partial<ServiceImpl<typeof DeployerInternal>> = {
    resolveScope({ accountId, projectId, environmentId, service, serviceId }) {
      asked.scopes++;
      const project = nodes.get(projectId ?? "");
      if (!serviceId && project?.accountId !== accountId) throw notFound("project");
      const environment = environmentId
        ? childrenOf(projectId!).find((n) => n.id === environmentId)
        : undefined;
      if (environmentId && !environment) throw notFound("environment");
      const named = service ? childrenOf(environmentId!).find((n) => n.name === service) : undefined;
      if (service && !named) throw notFound("service");
      const end = serviceId ? nodes.get(serviceId) : (named ?? environment ?? project);
      if (!end) throw notFound("service");
      const [p, e, s] = chain(end);
      return {
        accountId: p!.accountId,
        projectId: p!.id,
        environmentId: e?.id,
        serviceId: s?.id,
        serviceName: s?.name,
        serviceType: s?.type,
        hasConfigEnv: s && envs.has(s.id),
        namedAt: s?.namedAt,
      };
    },
    listScopeServices({ projectId, environmentId }) {
      const environments = environmentId ? [environmentId] : childrenOf(projectId).map((node) => node.id);
      const services = environments.flatMap((id) =>
        childrenOf(id).map((node) => ({ id: node.id, name: node.name!, environmentId: id, type: node.type })),
      );
      return { services: services.filter(({ type }) => type === "web" || type === "worker") };
    },
    getServiceEnv({ serviceId }) {
      asked.envs++;
      if (!nodes.has(serviceId)) throw notFound("service");
      return { env: envs.get(serviceId) ?? {}, revision: revisions.get(serviceId) ?? 0 };
    },
    getAddonKeys({ serviceId }) {
      asked.keys++;
      if (!nodes.has(serviceId)) throw notFound("addon");
      return keys.get(serviceId) ?? { ready: false, revision: 0n, keys: [] };
    },
  };
  const { url, stop } = await startNeighbours((router) => router.service(DeployerInternal, handlers));
  let clock = Date.now();
  const later = () => timestampFromMs(clock++);
  const add = (prefix: string, node: Omit<Node, "id">) => {
    const id = newId(prefix);
    nodes.set(id, { id, ...node });
    return id;
  };
  return {
    url,
    asked,
    project: (accountId: string) => add("prj", { accountId }),
    environment: (projectId: string) =>
      add("env", { accountId: nodes.get(projectId)!.accountId, parentId: projectId }),
    service: (environmentId: string, name: string, type = "web") =>
      add("svc", {
        ...{ accountId: nodes.get(environmentId)!.accountId, parentId: environmentId },
        ...{ name, type, namedAt: later() },
      }),
    /** The time at which a service got its name. */
    namedAt: (serviceId: string) => nodes.get(serviceId)!.namedAt!,
    /** Gives a service another name. */
    rename(serviceId: string, name: string) {
      nodes.set(serviceId, { ...nodes.get(serviceId)!, name, namedAt: later() });
    },
    configure(serviceId: string, env: Record<string, string>) {
      envs.set(serviceId, env);
      revisions.set(serviceId, (revisions.get(serviceId) ?? 0) + 1);
    },
    publish: (serviceId: string, values: Record<string, string>, revision = 1n, ready = true) =>
      keys.set(serviceId, {
        ready,
        revision,
        keys: Object.entries(values).map(([key, value]) => ({
          key,
          value,
          sensitive: key === "PASSWORD" || key === "URL",
        })),
      }),
    remove(id: string): void {
      for (const node of [...nodes.values()]) if (node.parentId === id) this.remove(node.id);
      nodes.delete(id);
    },
    stop,
  };
}

export type Tree = Awaited<ReturnType<typeof startTree>>;

/** Variables on a database, a NATS and a deployer's tree of its own; `more` overrides its environment. */
export async function startVariables(more: Record<string, string> = {}) {
  const [database, nats, tree] = await Promise.all([migratedDatabase(), testNats(), startTree()]);
  const env: Record<string, string> = {
    DATABASE_URL: database.url("variables"),
    NATS_URL: nats.url,
    DEPLOYER_URL: tree.url,
    INTERNAL_KEYS: testKeys.map((key) => key.toString("base64")).join(","),
    ENCRYPTION_KEYS: testKek,
    ...more,
  };
  const logLines: string[] = [];
  const log = createLog("variables", "debug", (line) => void logLines.push(line));
  const startOne = (other: Record<string, string> = {}) =>
    start(readConfig({ ...env, ...other }, fields), log);
  const running = await startOne();
  const pool = createPool(database.url("variables"));
  const events = await openEvents(nats.url);
  const seen: { subject: string; data: Uint8Array }[] = [];
  const subscription = events.nc.subscribe("berth.variables.>", {
    callback: (_error, message) => void seen.push({ subject: message.subject, data: message.data }),
  });
  await events.nc.flush();

  return {
    env,
    port: running.port,
    tree,
    pool,
    nats,
    logLines,
    /** Everything that variables has published, in order. */
    seen,
    /** A second process of the service on the same database. */
    startOne,
    as: (accountId: string, role: RoleName = "editor", port = running.port) =>
      clientAs(VariablesService, port, { accountId, role, id: "usr_test", ip: "203.0.113.7" }),
    service: (port = running.port) =>
      clientAs(InternalService, port, { kind: "service", id: "deployer", accountId: undefined }),
    /** A project with one environment and services in it, which variables does not know yet. */
    scene(services: Record<string, string> = { web: "web" }) {
      const accountId = `acc_${randomBytes(8).toString("hex")}`;
      const projectId = tree.project(accountId);
      const environmentId = tree.environment(projectId);
      const ids = Object.fromEntries(
        Object.entries(services).map(([name, type]) => [name, tree.service(environmentId, name, type)]),
      );
      const P = { accountId, projectId };
      const E = { ...P, environmentId };
      return { accountId, projectId, environmentId, ids, P, E, S: { ...E, service: "web" } };
    },
    /** Publishes an event of the deployer. */
    publish: <S extends DescMessage>(schema: S, accountId: string, event: MessageInitShape<S>) =>
      events.publish("deployer", schema, accountId, event),
    /** Events of one kind that variables published for an account. */
    published<S extends DescMessage>(schema: S, accountId: string): MessageShape<S>[] {
      const suffix = `.${schema.name}.${accountId}`;
      const found = seen.filter((message) => message.subject.endsWith(suffix));
      return found.map((message) => fromBinary(schema, message.data));
    },
    kept: events.kept,
    stop: async () => {
      await running.stop();
      subscription.unsubscribe();
      await Promise.all([events.close(), pool.end(), tree.stop()]);
      await Promise.all([database.drop(), nats.remove()]);
    },
  };
}

export type TestVariables = Awaited<ReturnType<typeof startVariables>>;
export { deployerEvents };

/** The headers of one call: `send` are sent, `got` is filled with those of the answer. */
export function headers(send: Record<string, string> = {}) {
  const got: { etag: string | null; notModified: boolean } = { etag: null, notModified: false };
  const onHeader = (header: Headers) => {
    got.etag = header.get("etag");
    got.notModified = header.get("berth-not-modified") === "1";
  };
  return { got, options: { headers: send, onHeader } };
}
