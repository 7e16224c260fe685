/**
 * The ingress controller of the throw-away cluster: watches Ingresses, HTTPRoutes, certificates, Services and EndpointSlices,
 * ends TLS and forwards HTTP requests. It runs in a pod from this one file, so NetworkPolicies apply to it as to a real
 * one.
 */
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { type Duplex, Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { createSecureContext, type SecureContext, TLSSocket } from "node:tls";

type Meta = {
  name: string;
  namespace: string;
  resourceVersion: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
};
type Path = {
  path?: string;
  pathType: string;
  backend: { service: { name: string; port: { number?: number; name?: string } } };
};
type Ingress = {
  metadata: Meta;
  spec: {
    ingressClassName?: string;
    rules?: { host?: string; http?: { paths: Path[] } }[];
    tls?: { hosts?: string[]; secretName?: string }[];
  };
};
/** Whatever its Gateway: the cluster has no other controller. */
type HttpRoute = {
  metadata: Meta;
  spec: { hostnames?: string[]; rules?: { backendRefs?: { name: string; port: number }[] }[] };
};
type Secret = { metadata: Meta; data: { "tls.crt": string; "tls.key": string } };
type Service = { metadata: Meta; spec: { ports: { name?: string; port: number }[] } };
type Slice = {
  metadata: Meta;
  endpoints?: { addresses: string[]; conditions: { ready?: boolean } }[];
  ports?: { name?: string; port: number }[];
};
type Target = { host: string; port: number };
type Refusal = { status: number; reason: string };

const api = process.env.API ?? "https://kubernetes.default.svc";
const token = () => readFileSync("/var/run/secrets/kubernetes.io/serviceaccount/token", "utf8");
const className = process.env.INGRESS_CLASS;
let ready = 0;

class NoSuchKind extends Error {}

/** Returns all objects of a kind, kept up to date: by a list, then a watch, and both again when the watch breaks. */
function watchAll<T extends { metadata: Meta }>(path: string, fieldSelector = ""): Map<string, T> {
  const objects = new Map<string, T>();
  const key = (object: T) => `${object.metadata.namespace}/${object.metadata.name}`;
  const get = async (more: Record<string, string> = {}) => {
    const query = new URLSearchParams({ fieldSelector, ...more });
    const answer = await fetch(`${api}${path}?${query}`, { headers: { authorization: `Bearer ${token()}` } });
    if (answer.status === 404) throw new NoSuchKind();
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return answer;
  };
  async function once(first: boolean): Promise<void> {
    const list = (await (await get()).json()) as { items: T[]; metadata: { resourceVersion: string } };
    objects.clear();
    for (const object of list.items) objects.set(key(object), object);
    if (first) ready++;
    const { resourceVersion } = list.metadata;
    const watch = await get({ watch: "1", allowWatchBookmarks: "true", resourceVersion });
    for await (const line of createInterface({ input: Readable.fromWeb(watch.body as never) })) {
      const { type, object } = JSON.parse(line) as { type: string; object: T };
      if (type === "ERROR") return;
      if (type === "DELETED") objects.delete(key(object));
      else if (type !== "BOOKMARK") objects.set(key(object), object);
    }
  }
  void (async () => {
    for (let first = true; ; first = false) {
      // A cluster may learn of the Gateway API later.
      await once(first).catch((error) => error instanceof NoSuchKind || console.error(String(error)));
      await delay(200);
    }
  })();
  return objects;
}

const ingresses = watchAll<Ingress>("/apis/networking.k8s.io/v1/ingresses");
const routes = watchAll<HttpRoute>("/apis/gateway.networking.k8s.io/v1/httproutes");
const services = watchAll<Service>("/api/v1/services");
const slices = watchAll<Slice>("/apis/discovery.k8s.io/v1/endpointslices");
const secrets = watchAll<Secret>("/api/v1/secrets", "type=kubernetes.io/tls");
/** Without HTTPRoutes. */
const KINDS = 4;

const ownIngresses = () => [...ingresses.values()].filter(({ spec }) => spec.ingressClassName === className);

const matchesHost = (rule: string | undefined, host: string) =>
  !rule || rule === host || (rule.startsWith("*.") && host.slice(host.indexOf(".") + 1) === rule.slice(2));

function matchesPath(rule: Path, path: string): boolean {
  const wanted = rule.path ?? "/";
  if (rule.pathType === "Exact") return path === wanted;
  const folder = wanted.endsWith("/") ? wanted : `${wanted}/`;
  return path === wanted || `${path}/`.startsWith(folder);
}

type Rule = { host?: string; http?: { paths: Path[] }; in: string };

/** Returns the rules of an HTTPRoute as an Ingress has them; each is for all paths. */
function rulesOf({ metadata, spec }: HttpRoute): Rule[] {
  const targets = (spec.rules ?? []).flatMap(({ backendRefs }) => backendRefs ?? []);
  const paths = targets.map(({ name, port: number }) => {
    const service = { name, port: { number } };
    return { path: "/", pathType: "Prefix", backend: { service } };
  });
  return (spec.hostnames ?? []).map((host) => ({ host, http: { paths }, in: metadata.namespace }));
}

/** Returns the ready endpoints for a host and path; undefined when no rule matches. */
function findTargets(host: string, path: string): Target[] | undefined {
  const rules = ownIngresses().flatMap(({ metadata, spec }): Rule[] =>
    (spec.rules ?? []).map((rule) => ({ ...rule, in: metadata.namespace })),
  );
  const matches = [...rules, ...[...routes.values()].flatMap(rulesOf)]
    .filter((rule) => matchesHost(rule.host, host))
    .flatMap((rule) => (rule.http?.paths ?? []).map((one) => ({ ...one, host: rule.host, in: rule.in })))
    .filter((one) => matchesPath(one, path))
    .sort((a, b) => rank(b) - rank(a));
  const best = matches[0];
  if (!best) return undefined;
  const { name, port } = best.backend.service;
  const known = services
    .get(`${best.in}/${name}`)
    ?.spec.ports.find((one) => (port.name ? one.name === port.name : one.port === port.number));
  if (!known) return [];
  return [...slices.values()]
    .filter(({ metadata }) => metadata.namespace === best.in)
    .filter(({ metadata }) => metadata.labels?.["kubernetes.io/service-name"] === name)
    .flatMap(({ endpoints, ports }) => {
      const target = ports?.find((one) => (one.name ?? "") === (known.name ?? ""));
      const usable = (endpoints ?? []).filter(({ conditions }) => conditions.ready !== false);
      return target ? usable.map(({ addresses }) => ({ host: addresses[0]!, port: target.port })) : [];
    });
}

/** Returns the certificate that an Ingress names for a host. @throws when there is none. */
function findCertificate(host: string): SecureContext {
  const named = ownIngresses().flatMap(({ metadata, spec }) =>
    (spec.tls ?? []).map((tls) => ({ ...tls, in: metadata.namespace })),
  );
  const tls = named.find(({ hosts }) => hosts?.includes(host));
  const secret = secrets.get(`${tls?.in}/${tls?.secretName}`);
  if (!secret) throw new Error(`no certificate for ${host}`);
  const [cert, key] = [secret.data["tls.crt"], secret.data["tls.key"]];
  return createSecureContext({ cert: Buffer.from(cert, "base64"), key: Buffer.from(key, "base64") });
}

const REDIRECT = "nginx.ingress.kubernetes.io/permanent-redirect";

/** Returns where an Ingress with the annotations of ingress-nginx redirects the requests for a host. */
function findRedirect(host: string, url: string): { status: number; location: string } | undefined {
  const named = ownIngresses().find(({ spec }) => spec.rules?.some((rule) => rule.host === host));
  const { [REDIRECT]: target, [`${REDIRECT}-code`]: code = "301" } = named?.metadata.annotations ?? {};
  return target === undefined
    ? undefined
    : { status: Number(code), location: target.replaceAll("$request_uri", url) };
}

/** An exact host goes before a wildcard, then the longer path before the shorter. */
const rank = (one: Path & { host?: string }) =>
  (one.host && !one.host.startsWith("*") ? 20_000 : 0) + (one.host ? 10_000 : 0) + (one.path ?? "/").length;

/** How long a pod has to accept. A machine that is short of CPU takes more than a second now and then. */
const CONNECT_MS = 5_000;

/**
 * Returns a connection to one of the targets, starting with a random one, or why none accepts. Not round-robin: with
 * one counter for all hosts, a client that alternates between two hosts would always get the same targets.
 */
async function connectToAny(targets: Target[]): Promise<Socket | Refusal> {
  const start = Math.floor(Math.random() * targets.length);
  const reasons: string[] = [];
  for (let index = 0; index < targets.length; index++) {
    const target = targets[(start + index) % targets.length]!;
    const socket = connect(target);
    const failure = await new Promise<string | undefined>((resolve) => {
      socket.setTimeout(CONNECT_MS, () => resolve("does not answer"));
      socket.once("connect", () => resolve(undefined)).once("error", ({ message }) => resolve(message));
    });
    if (failure === undefined) return socket.setTimeout(0);
    reasons.push(`${target.host}: ${failure}`);
    socket.destroy();
  }
  return { status: 502, reason: reasons.join(", ") };
}

const hostOf = ({ headers }: IncomingMessage) => (headers.host ?? "").toLowerCase().replace(/:\d+$/, "");

/** Returns a connection for the request, or its refusal. */
async function route(message: IncomingMessage): Promise<Socket | Refusal> {
  const host = hostOf(message);
  const path = (message.url ?? "/").split("?")[0]!;
  const targets = findTargets(host, path);
  if (!targets) return { status: 404, reason: "no Ingress or HTTPRoute has this host and path" };
  if (targets.length === 0) return { status: 503, reason: "no pod is ready" };
  return connectToAny(targets);
}

const forwarded = (message: IncomingMessage) => ({
  ...message.headers,
  "x-forwarded-for": [message.headers["x-forwarded-for"], message.socket.remoteAddress]
    .filter(Boolean)
    .join(", "),
  "x-forwarded-proto": message.socket instanceof TLSSocket ? "https" : "http",
  "x-forwarded-host": message.headers.host,
});

function refuse(response: ServerResponse, { status, reason }: Refusal): void {
  response.writeHead(status, { "content-type": "text/plain" }).end(`${status} ${reason}\n`);
}

async function serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
  if (message.url === "/ready" && message.headers.host?.startsWith(process.env.POD_IP ?? "-")) {
    response.writeHead(ready >= KINDS ? 200 : 503).end();
    return;
  }
  const redirect = findRedirect(hostOf(message), message.url ?? "/");
  if (redirect) return void response.writeHead(redirect.status, { location: redirect.location }).end();
  const socket = await route(message);
  if ("status" in socket) return refuse(response, socket);
  const { method, url: path } = message;
  // One connection per request: none is reused while its server is closing it.
  const onward = request({
    method,
    path,
    headers: forwarded(message),
    createConnection: () => socket,
  });
  onward.on("response", (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    response.flushHeaders();
    answer.pipe(response);
    answer.on("error", () => response.destroy());
  });
  onward.on("error", (error) =>
    response.headersSent
      ? response.destroy()
      : refuse(response, { status: 502, reason: `${socket.remoteAddress}: ${error.message}` }),
  );
  response.on("close", () => socket.destroy());
  message.pipe(onward);
}

async function upgrade(message: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
  const socket = await route(message);
  if ("status" in socket) return void client.end(`HTTP/1.1 ${socket.status} \r\nconnection: close\r\n\r\n`);
  const headers = Object.entries(forwarded(message)).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`${message.method} ${message.url} HTTP/1.1\r\n${headers.join("")}\r\n`);
  socket.write(head);
  for (const [from, to] of [[client, socket] as const, [socket, client] as const]) {
    from.on("error", () => to.destroy()).on("close", () => to.destroy());
    from.pipe(to);
  }
}

const options = { requestTimeout: 0, keepAliveTimeout: 60_000 };
const SNICallback = (host: string, done: (error: Error | null, certificate?: SecureContext) => void) => {
  try {
    done(null, findCertificate(host));
  } catch (error) {
    done(error as Error);
  }
};
createServer(options, serve).on("upgrade", upgrade).listen(8080);
createTlsServer({ ...options, SNICallback }, serve)
  .on("upgrade", upgrade)
  .listen(8443);
process.on("SIGTERM", () => process.exit(0));
