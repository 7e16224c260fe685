import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import https from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import type { Deployment } from "../support/apps.ts";
import { archiveOf } from "../support/archives.ts";
import { end, type Launched, launch } from "../support/launched.ts";
import { findOnPath } from "../support/on-path.ts";
import { type FrontProxy, startCaddy, startNginx } from "../support/servers/front-proxy.ts";

const PUBLIC = "https://berth.example.com";
const APPS = "apps.example.com";
/** Not the usual address of this machine, so that a client from there is recognised. */
const CLIENT = "127.0.0.77";

let data: string;
let platform: Launched;
let E: string;

beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), "berth-proxied-"));
  platform = await launch({ dir: data, args: ["--public-url", PUBLIC, "--apps-domain", APPS] });
  const A = `/accounts/${platform.accountId}`;
  const { id: project } = await must<{ id: string }>("POST", `${A}/projects`, { name: "shop" });
  const environments = `${A}/projects/${project}/environments`;
  const { id } = await must<{ id: string }>("POST", environments, { name: "production" });
  E = `${environments}/${id}`;
});

afterAll(async () => {
  if (platform) await end(platform.child, "SIGTERM");
  await rm(data, { recursive: true, force: true });
});

async function must<T>(method: string, path: string, body?: unknown): Promise<T> {
  const answer = await platform.requestUntilAnswered(method, path, body);
  if (answer.status >= 400) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** Returns what the launcher printed, to the end of its summary, which comes after local.json. */
const printed = () =>
  eventually("the summary is printed", async () => /Ctrl-C/.test(platform.output()) && platform.output());

async function json(path: string): Promise<Record<string, unknown>> {
  return (await fetch(platform.origin + path)).json() as Promise<Record<string, unknown>>;
}

test("everything that is answered, mailed and printed has the public URL, and local.json still works here", async () => {
  const { origin, mailUrl } = platform;
  expect(new URL(origin).hostname).toBe("127.0.0.1");
  const local = JSON.parse(await readFile(join(data, "local.json"), "utf8"));
  expect(local).toMatchObject({ origin, publicUrl: PUBLIC, appsDomain: APPS });

  expect((await json("/openapi.json")).servers).toEqual([{ url: `${PUBLIC}/v1` }]);
  const server = await json("/.well-known/oauth-authorization-server");
  expect(server).toMatchObject({ issuer: PUBLIC, token_endpoint: `${PUBLIC}/oauth2/token` });
  for (const [path, resource] of [
    ["", `${PUBLIC}/v1`],
    ["/mcp", `${PUBLIC}/mcp`],
  ]) {
    const metadata = await json(`/.well-known/oauth-protected-resource${path}`);
    expect(metadata).toMatchObject({ resource, authorization_servers: [PUBLIC] });
  }
  for (const path of ["/v1/me", "/mcp"]) {
    const { headers } = await fetch(origin + path, { method: path === "/mcp" ? "POST" : "GET" });
    expect(headers.get("www-authenticate")).toContain(`resource_metadata="${PUBLIC}/`);
  }
  const page = await fetch(`${origin}/signin`);
  expect(page.headers.get("set-cookie")).toMatch(/^__Host-berth_form=.*; Secure/);

  await must("POST", "/password-resets", { email: "owner@berth.localhost" });
  const mail = await eventually("the mail has arrived", async () => {
    const text = await (await fetch(`${mailUrl}messages.json`)).text();
    return text.includes("password") && text;
  });
  expect(mail).toContain(`${PUBLIC}/`);
  expect(mail).not.toContain(origin);

  await must("POST", `${E}/services`, { name: "draft", type: "web" });
  const { uploadUrl } = await must<{ uploadUrl: string }>("POST", `${E}/services/draft/uploads`, {});
  expect(uploadUrl).toMatch(/^https:\/\/berth\.example\.com\/uploads\//);

  const said = await printed();
  for (const line of [
    `${PUBLIC}/v1`,
    `${PUBLIC}/docs`,
    `Console     ${PUBLIC}/ `,
    `https://<service>-<environment>-<project>.${APPS}`,
    `npx berth login ${PUBLIC}`,
    "Isolation begins on a cluster",
  ])
    expect(said).toContain(line);
});

/** Streams: the second event is sent once somebody has asked for /more, which nobody does before the first arrived. */
const APP = [
  { name: "package.json", content: JSON.stringify({ scripts: { start: "node server.js" } }) },
  {
    name: "server.js",
    content: `let more = () => {};
      require("node:http").createServer((req, res) => {
        if (req.url === "/more") { more(); return res.end("sent"); }
        if (req.url !== "/events") return res.end(JSON.stringify(req.headers));
        res.writeHead(200, { "content-type": "text/event-stream" });
        res.write("data: first\\n\\n");
        more = () => res.end("data: second\\n\\n");
      }).listen(process.env.PORT);`,
  },
];

const PROXIES = [
  ["nginx", findOnPath("nginx", "/usr/sbin/nginx"), startNginx],
  ["caddy", findOnPath("caddy"), startCaddy],
] as const;

for (const [name, program] of PROXIES)
  if (!program)
    console.log(`Skipped: Berth behind ${name}. There is no ${name} here (apt-get install ${name} has it).`);

for (const [name, program, start] of PROXIES)
  describe.skipIf(!program)(`behind ${name}, as the page has it`, () => {
    let proxy: FrontProxy;
    let ca: string;

    beforeAll(async () => {
      const ports = JSON.parse(await readFile(join(data, "ports.json"), "utf8"));
      proxy = await start({ program: program!, ports: { api: ports.gateway, apps: ports.router } });
      ca = await proxy.ca();
    });
    afterAll(() => proxy?.stop());

    type Request = { method?: string; headers?: Record<string, string>; body?: string | Buffer };

    /** Opens an https URL as a browser elsewhere does: by its name, trusting the proxy's authority. */
    async function open(url: string, { method = "GET", headers = {}, body }: Request = {}) {
      const { hostname, pathname, search } = new URL(url);
      const at = { host: "127.0.0.1", port: proxy.port, localAddress: CLIENT, agent: false as const };
      const claimed = { "x-forwarded-for": "203.0.113.66", "x-forwarded-host": "evil.example" };
      const length = body === undefined ? undefined : { "content-length": String(Buffer.byteLength(body)) };
      const sent = https.request({
        ...at,
        ...{ servername: hostname, ca, method, path: pathname + search },
        headers: { host: hostname, ...claimed, ...length, ...headers },
      });
      const [response] = (await once(sent.end(body), "response")) as [IncomingMessage];
      return response;
    }

    async function call<T>(method: string, url: string, token?: string, body?: unknown): Promise<T> {
      const headers = {
        ...(token && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
      };
      const response = await open(url, { method, headers, body: body && JSON.stringify(body) } as Request);
      const text = Buffer.concat(await response.toArray()).toString();
      if (response.statusCode! >= 400) throw new Error(`${method} ${url}: ${response.statusCode} ${text}`);
      return JSON.parse(text);
    }

    test("people sign in, deploy what they uploaded, and open the app by its https address", async () => {
      const { ownerPassword } = JSON.parse(await readFile(join(data, "secrets.json"), "utf8"));
      const who = { email: "owner@berth.localhost", password: ownerPassword };
      const { token } = await call<{ token: string }>("POST", `${PUBLIC}/v1/sessions`, undefined, who);
      type Sessions = { data: { current: boolean; ip: string }[] };
      const sessions = await call<Sessions>("GET", `${PUBLIC}/v1/me/sessions`, token);
      expect(sessions.data.find(({ current }) => current)).toMatchObject({ ip: CLIENT });

      const api = `${PUBLIC}/v1${E}`;
      const created = await call<{ id: string }>("POST", `${api}/services`, token, { name, type: "web" });
      type Events = { data: { action: string; target: string; ip: string }[] };
      const events = `${PUBLIC}/v1/accounts/${platform.accountId}/audit-events?limit=100`;
      const record = await eventually("the audit record is there", async () => {
        const { data: records } = await call<Events>("GET", events, token);
        return records.find((one) => one.action === "service.create" && one.target === created.id);
      });
      expect(record.ip).toBe(CLIENT);

      type Target = { uploadUrl: string; method: string; contentType: string; archiveRef: string };
      const target = await call<Target>("POST", `${api}/services/${name}/uploads`, token, {});
      const body = await archiveOf(APP);
      const headers = { "content-type": target.contentType };
      const put = await open(target.uploadUrl, { method: target.method, headers, body });
      put.resume();
      expect(put.statusCode).toBeLessThan(300);
      const { archiveRef } = target;
      const path = `${api}/services/${name}`;
      const { version } = await call<Deployment>("POST", `${path}/deploy-from-archive`, token, {
        archiveRef,
      });

      const log = await open(`${path}/deployments/${version}/events`, {
        headers: { authorization: `Bearer ${token}`, accept: "text/event-stream" },
      });
      let seen = "";
      for await (const part of log.setEncoding("utf8")) {
        seen += part;
        if (/"healthy(At)?"/.test(seen)) break;
      }
      expect(seen).toContain("healthy");

      const { url } = await call<{ url: string }>("GET", path, token);
      expect(url).toBe(`https://${name}-production-shop.${APPS}`);
      const page = await open(url);
      const heard = JSON.parse(Buffer.concat(await page.toArray()).toString());
      expect(heard).toMatchObject({
        host: new URL(url).host,
        "x-forwarded-for": CLIENT,
        "x-forwarded-proto": "https",
        "x-forwarded-host": new URL(url).host,
      });

      const stream = (await open(`${url}/events`)).setEncoding("utf8");
      const parts = stream[Symbol.asyncIterator]();
      expect((await parts.next()).value).toContain("first");
      (await open(`${url}/more`)).resume();
      expect((await parts.next()).value).toContain("second");
    });
  });

test("a later start keeps the public URL; services get addresses at another domain; the API listens elsewhere", async () => {
  await must("POST", `${E}/services`, { name: "web", type: "web" });
  const { uploadUrl, ...target } = await must<{ uploadUrl: string; contentType: string; archiveRef: string }>(
    "POST",
    `${E}/services/web/uploads`,
    {},
  );
  const put = await fetch(uploadUrl.replace(PUBLIC, platform.origin), {
    method: "PUT",
    headers: { "content-type": target.contentType },
    body: new Uint8Array(await archiveOf(APP)),
  });
  expect(put.ok).toBe(true);
  await must("POST", `${E}/services/web/deploy-from-archive`, { archiveRef: target.archiveRef });
  const urlOf = async () => (await must<{ url?: string }>("GET", `${E}/services/web`)).url;
  const has = (url: string) =>
    eventually(`the app is at ${url}`, async () => (await urlOf().catch(() => undefined)) === url);
  await has(`https://web-production-shop.${APPS}`);
  await end(platform.child, "SIGTERM");
  platform = await launch({ dir: data, args: ["--apps-domain", "apps.example.org", "--listen", CLIENT] });
  expect(new URL(platform.origin).hostname).toBe(CLIENT);
  expect(await printed()).toContain(`npx berth login ${PUBLIC}`);
  await has("https://web-production-shop.apps.example.org");
});
