import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { KubeConfig } from "@kubernetes/client-node";
import * as kinds from "../../../services/deployer/kube/kinds.ts";
import { selfSignedCertificate } from "../servers/certificate.ts";
import { covers, createStore, type Given, Refusal, type Scope, type Store } from "./store.ts";

export type Verb = "get" | "list" | "watch" | "create" | "apply" | "merge" | "delete";

/** A request for objects. `from` is the version at which a watch begins. */
export type Call = { verb: Verb; plural: string; namespace?: string; name?: string; from?: string };

/** Called with each request before it is answered; may delay it, or fail it by throwing a `Refusal`. */
type Before = (call: Call) => unknown;

/** Besides Berth's kinds those that its chart asks for. All are discovered; objects of others are not found. */
const KINDS = [
  ...Object.values(kinds),
  { apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", plural: "clusterroles" },
  { apiVersion: "networking.k8s.io/v1", kind: "IngressClass", plural: "ingressclasses" },
  { apiVersion: "gateway.networking.k8s.io/v1", kind: "Gateway", plural: "gateways" },
];
const OF_THE_CLUSTER = ["Namespace", "ClusterRole", "IngressClass"];

const WRITES: readonly Verb[] = ["create", "apply", "merge", "delete"];
const BOOKMARK_MS = 60_000;
/** The name in the certificate. */
const HOST = "kubernetes";
const POD_LOG = /^\/api\/v1\/namespaces\/(?<namespace>[^/]+)\/pods\/(?<pod>[^/]+)\/log$/;
const PATH =
  /^\/(?:api\/(?<core>v1)|apis\/(?<group>[^/]+\/[^/]+))(?:\/namespaces\/(?<namespace>[^/]+))?\/(?<plural>[a-z]+)(?:\/(?<name>[^/]+))?$/;

/**
 * Starts an API server that answers like one of Kubernetes, with lists in pages, watches with bookmarks that can be
 * resumed, and server-side apply; and that counts. Nothing acts on its objects: there are no controllers and no nodes.
 * With `tls` it is reached as a real one is.
 */
export async function startKubeApi({ tls = false } = {}) {
  const store = createStore();
  const calls: Call[] = [];
  const podLogs = new Map<string, string[]>();
  const unknown = new Set<string>();
  const watches = new Map<ServerResponse, { call: Call; bookmark: () => void; forget: () => void }>();
  let before: Before = () => {};

  /** Answers as where the cluster does not tell the streams apart. */
  function sendLog(response: ServerResponse, { searchParams }: URL, pod: string): void {
    if (searchParams.has("stream")) throw new Refusal(422, "PodLogOptions is invalid: stream: Forbidden");
    if (!podLogs.has(pod)) throw new Refusal(404, "pods not found");
    const lines = podLogs.get(searchParams.get("previous") === "true" ? `${pod} before` : pod);
    if (!lines) throw new Refusal(400, "previous terminated container not found");
    const tail = Number(searchParams.get("tailLines") ?? lines.length);
    const sent = lines.slice(-tail).map((line) => `${line}\n`);
    response.end(sent.join(""));
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "", "http://api");
    const log = POD_LOG.exec(url.pathname)?.groups;
    if (log?.pod) {
      calls.push({ verb: "get", plural: "pods/log", namespace: log.namespace, name: log.pod });
      return sendLog(response, url, log.pod);
    }
    if (url.pathname === "/version")
      return send(response, 200, { major: "1", minor: "34", gitVersion: "v1.34.0" });
    const groupVersion = /^\/(?:api\/(v1)|apis\/([^/]+\/[^/]+))$/.exec(url.pathname);
    if (groupVersion)
      return send(response, 200, discovery(groupVersion[1] ?? groupVersion[2] ?? "", unknown));
    const { core, group, namespace, plural = "", name } = PATH.exec(url.pathname)?.groups ?? {};
    const scope: Scope = { apiVersion: core ?? group ?? "", plural, ...(namespace && { namespace }) };
    const verb = verbOf(request, url, name);
    const from = url.searchParams.get("resourceVersion") ?? undefined;
    const call: Call = { verb, plural, namespace, ...(name && { name }), ...(verb === "watch" && { from }) };
    calls.push(call);
    if (unknown.has(plural)) throw new Refusal(404, "the server could not find the requested resource");
    await before(call);
    if (verb === "watch") return watch(call, scope, url, response);
    if (verb === "list") {
      const found = page(store, scope, url);
      return send(response, 200, isForMetadata(request) ? withMetadataOnly(found) : found);
    }
    // Only whether it may.
    if (url.searchParams.get("dryRun") === "All")
      return send(response, 200, store.find(scope, name ?? "") ?? {});
    const body = WRITES.includes(verb) && verb !== "delete" ? await json(request) : {};
    send(response, verb === "create" ? 201 : 200, change(store, verb, scope, name ?? "", body as Given));
  }

  /** Sends each change since the version that is asked for, then each new one. */
  function watch(call: Call, scope: Scope, url: URL, response: ServerResponse): void {
    const labels = labelsIn(url);
    const write = (type: string, object: unknown) =>
      void response.write(`${JSON.stringify({ type, object })}\n`);
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    const forward = (event: ReturnType<Store["since"]>[number]) => {
      const { plural, apiVersion } = event.scope;
      if (plural !== scope.plural || apiVersion !== scope.apiVersion) return;
      if (covers(scope, labels, event.object)) write(event.type, event.object);
    };
    try {
      for (const event of store.since(Number(call.from))) forward(event);
    } catch (error) {
      write("ERROR", toStatus(error));
      return void response.end();
    }
    const bookmark = () => {
      if (url.searchParams.get("allowWatchBookmarks") === "true")
        write("BOOKMARK", { metadata: { resourceVersion: String(store.version()) } });
    };
    const unsubscribe = store.onChange(forward);
    const forget = () => {
      unsubscribe();
      watches.delete(response);
    };
    watches.set(response, { call, bookmark, forget });
    response.on("close", forget);
  }

  const listener: RequestListener = (request, response) => {
    answer(request, response).catch((error) => send(response, error.code ?? 500, toStatus(error)));
  };
  const own = tls ? selfSignedCertificate(HOST) : undefined;
  const server = own ? createSecureServer(own, listener) : createServer(listener);
  // As a real one, which keeps idle connections for minutes.
  server.keepAliveTimeout = 180_000;
  await once(server.listen(0, "127.0.0.1"), "listening");
  const bookmark = () => {
    for (const one of watches.values()) one.bookmark();
  };
  const bookmarks = setInterval(bookmark, BOOKMARK_MS).unref();
  const { port } = server.address() as AddressInfo;
  const url = `${own ? "https" : "http"}://127.0.0.1:${port}`;

  return {
    url,
    config: apiConfig(url, own?.cert),
    store,
    /**
     * What pods wrote: `<time> <message>` for each line, by the pod's name; by `<name> before`, what its container
     * wrote before it was restarted.
     */
    podLogs,
    /** The kinds that this cluster does not have, by plural. */
    unknown,
    /** All requests for objects so far. */
    calls,
    /** Returns the requests that changed something, or tried to. */
    writes: () => calls.filter(({ verb }) => WRITES.includes(verb)),
    /** Has `listener` decide about each further request. */
    beforeEach(listener: Before): void {
      before = listener;
    },
    /** Sends a bookmark to each watch, as it happens once a minute anyway. */
    bookmark,
    /** Returns the watches that are open. */
    watches: (): Call[] => [...watches.values()].map(({ call }) => call),
    /** Ends all watches, as a server that restarts does; `broken` cuts their connections instead. */
    endWatches(broken = false): void {
      for (const [response, { forget }] of [...watches]) {
        forget();
        if (broken) response.destroy();
        else response.end();
      }
    },
    async stop(): Promise<void> {
      clearInterval(bookmarks);
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** Returns how a client reaches the API server at this URL, with the certificate that it trusts. */
export function apiConfig(url: string, cert?: string): KubeConfig {
  const trust = cert
    ? { caData: Buffer.from(cert).toString("base64"), tlsServerName: HOST, skipTLSVerify: false }
    : { skipTLSVerify: true };
  const config = new KubeConfig();
  config.loadFromClusterAndUser({ name: "simulated", server: url, ...trust }, { name: "berth" });
  return config;
}

export type KubeApi = Awaited<ReturnType<typeof startKubeApi>>;

function verbOf({ method, headers }: IncomingMessage, url: URL, name: string | undefined): Verb {
  if (method === "POST") return "create";
  if (method === "DELETE") return "delete";
  if (method === "PATCH") return headers["content-type"]?.includes("apply") ? "apply" : "merge";
  if (url.searchParams.get("watch") === "true") return "watch";
  return name ? "get" : "list";
}

function change(store: Store, verb: Verb, scope: Scope, name: string, body: Given): object {
  if (verb === "create") return store.create(scope, body);
  if (verb === "apply") return store.apply(scope, body);
  if (verb === "merge") return store.merge(scope, name, body);
  const found = store.find(scope, name);
  if (!found) throw new Refusal(404, `${scope.plural} "${name}" not found`);
  if (verb === "delete") store.remove(scope, name);
  return found;
}

/** Returns one page of a list; the place at which the next one begins is its `continue`. */
function page(store: Store, scope: Scope, url: URL) {
  const [version, after = ""] = url.searchParams.get("continue")?.split(" ") ?? [String(store.version())];
  store.since(Number(version));
  const limit = Number(url.searchParams.get("limit") ?? 0) || Number.POSITIVE_INFINITY;
  const rest = store.list(scope, labelsIn(url)).filter(([key]) => key > after);
  const items = rest.slice(0, limit);
  const next = rest.length > items.length ? { continue: `${version} ${items.at(-1)?.[0]}` } : {};
  const metadata = { resourceVersion: version, ...next };
  const kind = KINDS.find(({ plural }) => plural === scope.plural)?.kind;
  const { apiVersion } = scope;
  return { kind: `${kind}List`, apiVersion, metadata, items: items.map(([, object]) => object) };
}

const isForMetadata = ({ headers }: IncomingMessage) =>
  headers.accept?.includes("as=PartialObjectMetadataList") ?? false;

function withMetadataOnly(list: ReturnType<typeof page>): object {
  const apiVersion = "meta.k8s.io/v1";
  const items = list.items.map(({ metadata }) => ({ kind: "PartialObjectMetadata", apiVersion, metadata }));
  return { ...list, kind: "PartialObjectMetadataList", apiVersion, items };
}

function labelsIn(url: URL): Record<string, string> {
  const given = url.searchParams.get("labelSelector")?.split(",") ?? [];
  return Object.fromEntries(given.map((one) => one.split("=")));
}

function discovery(groupVersion: string, unknown: ReadonlySet<string>): object {
  const known = KINDS.filter((one) => one.apiVersion === groupVersion && !unknown.has(one.plural));
  const resources = known.map(({ plural, kind }) => ({
    ...{ name: plural, kind, namespaced: !OF_THE_CLUSTER.includes(kind), verbs: [] },
  }));
  return { kind: "APIResourceList", groupVersion, resources };
}

function toStatus(error: unknown): object {
  const { code = 500, message } = error as Refusal;
  return { kind: "Status", apiVersion: "v1", status: "Failure", code, message };
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}
