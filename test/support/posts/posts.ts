import { inject } from "vitest";
import { PROMO_CODE } from "../../../deploy/local/payments.ts";
import { allRoutes } from "../../../gateway/routing/routes.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { type Deployment, deployArchive, settled } from "../apps.ts";
import { archiveOf } from "../archives.ts";
import type { Door } from "../door.ts";
import {
  byId,
  created,
  deploying,
  invited,
  listed,
  liveService,
  type Made,
  type Post,
  page,
  unique,
} from "./effects.ts";

/** The REST routes that take an Idempotency-Key, one for each RPC. */
export const keyedRoutes = allRoutes().filter(
  (route, at, all) =>
    route.method === "POST" && !route.isPublic && all.findIndex((other) => other.rpc === route.rpc) === at,
);

/** For a platform whose commits a test holds: the database cancels none of them. */
export const unhurried = { DATABASE_LOCK_TIMEOUT_MS: "0", DATABASE_STATEMENT_TIMEOUT_MS: "0" };

/**
 * A request for each RPC that takes a key, by the RPC's name. An RPC that answers in several ways has several, with
 * words after a comma.
 */
export const posts: Record<string, (door: Door) => Promise<Post>> = {
  async CreateAccount(door) {
    const handle = unique("h");
    const made = listed(door, "/accounts", (one) => one.handle === handle);
    return { path: "/accounts", body: { handle }, named: byId, made, audited: created("account.create") };
  },

  async InviteMember(door) {
    const email = `${unique("m")}@example.com`;
    const made = listed(door, `${door.A}/invitations`, (one) => one.email === email);
    const body = { email, role: "reader" };
    return { path: `${door.A}/members`, body, named: byId, made, audited: created("invitation.create") };
  },

  async ResendInvitation(door) {
    const body = { email: `${unique("m")}@example.com`, role: "reader" };
    const { id } = await door.must<Made>("POST", `${door.A}/members`, body);
    const audited = { action: "invitation.resend", target: () => id };
    const named = (answer: Made) => String(answer.link);
    return { path: `${door.A}/invitations/${id}/resend`, body: {}, named, audited };
  },

  async AcceptInvitation(door) {
    const { id, accountId } = await invited(door);
    const made = listed(door, "/accounts", (one) => one.id === accountId);
    const audited = { action: "invitation.accept", target: () => id };
    return { path: `/me/invitations/${id}/accept`, body: {}, named: byId, made, audited };
  },

  async DeclineInvitation(door) {
    const { id } = await invited(door);
    const audited = { action: "invitation.decline", target: () => id };
    return { path: `/me/invitations/${id}/decline`, body: {}, named: () => "{}", audited };
  },

  async CreateToken(door) {
    const name = unique("t");
    const made = listed(door, "/me/tokens", (one) => one.name === name);
    return { path: "/me/tokens", body: { name }, named: byId, made, audited: created("token.created") };
  },

  async CompleteDevice(door) {
    const { clientId, userCode } = await asking(door);
    const path = "/oauth/device/complete";
    const made = async () => {
      const grants = await door.must<{ clientId: string }[]>("GET", "/me/mcp-grants");
      return grants.filter((one) => one.clientId === clientId).map(() => "{}");
    };
    const body = { userCode, accountId: door.accountId, role: "reader" };
    return { path, body, named: JSON.stringify, made };
  },

  async RejectDevice(door) {
    const { userCode } = await asking(door);
    return { path: "/oauth/device/reject", body: { userCode }, named: JSON.stringify };
  },

  async CreateProject(door) {
    const name = unique("p");
    const path = `${door.A}/projects`;
    const made = listed(door, path, (one) => one.name === name);
    return { path, body: { name }, named: byId, made, audited: created("project.create") };
  },

  async CreateEnvironment(door) {
    const { P } = await door.environment();
    const path = `${P}/environments`;
    const made = listed(door, path, (one) => one.name === "staging");
    return { path, body: { name: "staging" }, named: byId, made, audited: created("environment.create") };
  },

  async CreateService(door) {
    const { E } = await door.environment();
    const path = `${E}/services`;
    const body = { name: "web", type: "web" };
    return {
      path,
      body,
      named: byId,
      made: listed(door, path, () => true),
      audited: created("service.create"),
    };
  },

  async ApplyEnvironment(door) {
    const { E, environmentId } = await door.environment();
    await door.must("POST", `${E}/services`, { name: "web", type: "web", staged: true });
    const named = (answer: Made) => String(answer.applied);
    const audited = { action: "environment.apply", target: () => environmentId };
    return { path: `${E}/apply`, body: {}, named, made: listed(door, `${E}/services`, () => true), audited };
  },

  async RotateCredentials(door) {
    const path = `${await runningAddon(door)}/rotate-credentials`;
    return { path, body: {}, named: byId, audited: created("service.rotate_credentials") };
  },

  async OpenTunnel(door) {
    const S = await runningAddon(door);
    const { id } = await door.must<Made>("GET", S);
    const named = (answer: Made) => String(answer.path);
    return { path: `${S}/tunnel`, body: {}, named, audited: { action: "service.tunnel", target: () => id } };
  },

  async PromoteService(door) {
    const S = await runningAddon(door);
    const next = S.replace(/db$/, "next");
    await door.must("POST", S.replace(/\/db$/, ""), { name: "next", type: "postgres" });
    await eventually("the other addon runs", async () => {
      return (await door.must<{ status: string }>("GET", next)).status === "running";
    });
    const audited = created("service.promote");
    return { path: `${next}/promote`, body: { over: "db" }, named: byId, audited };
  },

  async CreateBackup(door) {
    const S = await runningAddon(door);
    const path = `${S}/backups`;
    const made = listed(door, path, () => true);
    return { path, body: {}, named: byId, made, audited: created("backup.create") };
  },

  async "CreateBackup, of an upload"(door) {
    const S = await runningAddon(door);
    type Target = { uploadUrl: string; contentType: string; upload: string };
    const target = await door.must<Target>("POST", `${S}/backups/uploads`, {});
    const headers = { "content-type": target.contentType };
    const dump = Buffer.from([...Buffer.from("PGDMP"), 1, 16, 0, 4, 8, 1]);
    await fetch(target.uploadUrl, { method: "PUT", headers, body: dump });
    const path = `${S}/backups`;
    const made = listed(door, path, () => true);
    const audited = created("backup.upload");
    return { path, body: { upload: target.upload }, named: byId, made, audited };
  },

  async CreateBackupUpload(door) {
    const S = await runningAddon(door);
    return { path: `${S}/backups/uploads`, body: {}, named: (answer) => String(answer.upload) };
  },

  async RestoreBackup(door) {
    const S = await runningAddon(door);
    const { id } = await door.must<Made>("POST", `${S}/backups`, {});
    await eventually("the backup is made", async () => {
      const { status } = await door.must<{ status: string }>("GET", `${S}/backups/${id}`);
      return status === "succeeded";
    });
    const body = { backup: id, confirmImpact: true };
    const audited = { action: "backup.restore", target: () => id };
    return { path: `${S}/restore`, body, named: byId, audited };
  },

  async Deploy(door) {
    const S = await liveService(door, "deploy", 1);
    return { path: `${S}/deploy`, body: {}, ...(await deploying(door, S)) };
  },

  async "Deploy, tried out"(door) {
    const S = await liveService(door, "deploy", 1);
    const named = (answer: Made) => JSON.stringify(answer.eligible);
    return { path: `${S}/deploy`, body: { dryRun: true }, named };
  },

  async CreateUpload(door) {
    const S = await liveService(door, "upload", 0);
    return { path: `${S}/uploads`, body: {}, named: (answer) => String(answer.archiveRef) };
  },

  async DeployFromArchive(door) {
    const S = await liveService(door, "archive", 0);
    const target = await door.must<{ uploadUrl: string; contentType: string; archiveRef: string }>(
      "POST",
      `${S}/uploads`,
      {},
    );
    const headers = { "content-type": target.contentType };
    await fetch(target.uploadUrl, { method: "PUT", headers, body: new Uint8Array(await page("uploaded")) });
    const body = { archiveRef: target.archiveRef };
    return { path: `${S}/deploy-from-archive`, body, ...(await deploying(door, S)) };
  },

  async Rollback(door) {
    const S = await liveService(door, "rollback", 2);
    const { data } = await door.must<{ data: Deployment[] }>("GET", `${S}/deployments`);
    await settled(door, S, data[0]!.version);
    const { liveVersion } = await door.must<{ liveVersion: number }>("GET", S);
    const version = data.find((one) => one.healthyAt && one.version !== liveVersion)!.version;
    return { path: `${S}/rollback`, body: { version }, ...(await deploying(door, S)) };
  },

  async MarkRead(door) {
    const { id } = await notified(door);
    return { path: `/notifications/${id}/read`, body: {}, named: JSON.stringify };
  },

  async MarkAllRead(door) {
    await notified(door);
    return { path: "/notifications/read-all", body: {}, named: JSON.stringify };
  },

  async CreateWebhook(door) {
    await removeWebhooks(door);
    const path = `${door.A}/webhooks`;
    const made = listed(door, path, () => true);
    return { path, body: { url: WEBHOOK_URL }, named: byId, made, audited: created("webhook.create") };
  },

  async RotateWebhookSecret(door) {
    const { id, path } = await webhook(door);
    const audited = { action: "webhook.rotate_secret", target: () => id };
    return { path: `${path}/rotate-secret`, body: {}, named: (answer) => String(answer.secret), audited };
  },

  async TestWebhook(door) {
    const { path } = await webhook(door);
    // What else happens in the account is delivered too.
    const made = listed(door, `${path}/deliveries`, ({ kind }) => kind === "webhook.test");
    return { path: `${path}/test`, body: {}, named: byId, made };
  },

  async ReplayWebhookDelivery(door) {
    const { id, path } = await webhook(door);
    const delivery = await door.must<Made>("POST", `${path}/test`, {});
    // What waits is given up, and can be replayed.
    for (const enabled of [false, true]) await door.must("PATCH", path, { enabled });
    const audited = { action: "webhook.replay", target: () => id };
    return { path: `${path}/deliveries/${delivery.id}/replay`, body: {}, named: byId, audited };
  },

  async CreateDomain(door) {
    const path = await domainsPath(door);
    const host = `${unique("d")}.example.com`;
    const made = listed(door, path, (one) => one.host === host);
    return { path, body: { host }, named: byId, made, audited: created("domain.create") };
  },

  async CreateRegistry(door) {
    const path = `${door.A}/registries`;
    for (const id of await listed(door, path, () => true)()) await door.must("DELETE", `${path}/${id}`);
    const host = `${unique("r")}.example.com`;
    const made = listed(door, path, (one) => one.host === host);
    const body = { host, user: "ci", token: "secret" };
    return { path, body, named: byId, made, audited: created("registry.create") };
  },

  async CreateRun(door) {
    const S = await liveService(door, "runs", 1);
    const path = `${S}/runs`;
    const command = `echo ${unique("r")}`;
    const made = listed(door, path, (one) => one.command === command);
    return { path, body: { command }, named: byId, made, audited: created("run.create") };
  },

  async CancelRun(door) {
    const S = await liveService(door, "runs", 1);
    const { id } = await door.must<Made>("POST", `${S}/runs`, { command: "sleep 600" });
    const audited = { action: "run.cancel", target: () => id };
    return { path: `${S}/runs/${id}/cancel`, body: {}, named: byId, audited };
  },

  async CheckDomain(door) {
    const path = await domainsPath(door);
    const { id } = await door.must<Made>("POST", path, { host: `${unique("d")}.example.com` });
    return { path: `${path}/${id}/check`, body: {}, named: byId };
  },

  async RestartService(door) {
    const S = await liveService(door, unique("restart"), 1);
    return { path: `${S}/restart`, body: {}, named: byId, audited: created("service.restart") };
  },

  async ClearBuildCache(door) {
    const S = await liveService(door, unique("cache"), 0);
    const { id } = await door.must<Made>("GET", S);
    const audited = { action: "build_cache.clear", target: () => id };
    return { path: `${S}/clear-build-cache`, body: {}, named: () => "{}", audited };
  },

  async CancelDeployment(door) {
    const S = await liveService(door, unique("cancel"), 0);
    const scripts = { build: "sleep 600", start: "node server.js" };
    const content = JSON.stringify({ name: "slow", scripts });
    const { version } = await deployArchive(door, S, await archiveOf([{ name: "package.json", content }]));
    const path = `${S}/deployments/${version}/cancel`;
    return { path, body: {}, named: byId, audited: created("deployment.cancel") };
  },

  async CreateSubscription(door) {
    const path = `${await anotherAccount(door)}/subscription`;
    return { path, body: { tierId: "pro" }, named: (answer) => String(answer.checkoutUrl) };
  },

  async RedeemCoupon(door) {
    const path = `${await anotherAccount(door)}/coupon`;
    return { path, body: { code: PROMO_CODE }, named: () => "{}" };
  },

  async CreateVariable(door) {
    const { P } = await door.environment();
    const path = `${P}/variables`;
    const name = unique("V");
    const body = { name, value: "one" };
    const audited = { action: "variable.create", target: () => name };
    return { path, body, named: byId, made: listed(door, path, () => true), audited };
  },

  async BatchVariables(door) {
    const { P, projectId } = await door.environment();
    const body = { set: [{ name: "A", value: "one" }] };
    const named = (answer: Made) => (answer.data as Made[])[0]!.id;
    const made = listed(door, `${P}/variables`, () => true);
    const audited = { action: "variable.batch", target: () => projectId };
    return { path: `${P}/variables/batch`, body, named, made, audited };
  },

  async RevealVariable(door) {
    const { P } = await door.environment();
    const [name, value] = [unique("V"), unique("secret")];
    await door.must("POST", `${P}/variables`, { name, value, sensitive: true });
    const audited = { action: "variable.reveal", target: () => name };
    return {
      path: `${P}/variables/${name}/reveal`,
      body: {},
      named: (answer) => String(answer.value),
      audited,
    };
  },

  async RevealResolvedVariables(door) {
    const { P, E, S } = await door.environment();
    const [name, value] = [unique("V"), unique("secret")];
    await door.must("POST", `${E}/services`, { name: "web", type: "web" });
    await door.must("POST", `${P}/variables`, { name, value, sensitive: true });
    const named = (answer: Made) => (answer.data as Made[]).map((entry) => String(entry.value)).join();
    const audited = { action: "variable.reveal", target: () => name };
    return { path: `${S("web")}/resolved-variables/reveal`, body: {}, named, audited };
  },
};

const OF_BACKUPS = ["CreateBackup", "CreateBackup, of an upload", "CreateBackupUpload", "RestoreBackup"];
for (const name of inject("hasDumps") ? [] : OF_BACKUPS) delete posts[name];
/** Backups of an addon need programs that not every machine has. */
export const leftOut = OF_BACKUPS.filter((name) => !(name in posts) && !name.includes(","));

/** Requests that leave something in the database of a service. */
export const changing = Object.keys(posts).filter((name) => !name.includes(",") && name !== "CreateUpload");

/**
 * Not in the audit log: what a user has read, has looked up again, begins or tries out. Nor by a name that is known: what devices asked for. And what is there under
 * a plan or a code, which all accounts share.
 */
const UNCOUNTED = [
  "CreateBackupUpload",
  "MarkRead",
  "MarkAllRead",
  "CheckDomain",
  "TestWebhook",
  "CompleteDevice",
  "RejectDevice",
  "CreateSubscription",
  "RedeemCoupon",
];

/** Those whose records in the audit log are counted. */
export const audited = changing.filter((name) => !UNCOUNTED.includes(name));

/** Returns the route of a request by its name in `posts`. */
export const routeOf = (name: string) => keyedRoutes.find((route) => route.rpc.name === name.split(",")[0])!;

/** Returns the path of an account of the caller's that has bought nothing. */
async function anotherAccount(door: Door): Promise<string> {
  const { id } = await door.must<Made>("POST", "/accounts", { handle: unique("h") });
  return `/accounts/${id}`;
}

/** Returns a client on a device that waits, and the code that it shows. */
async function asking(door: Door): Promise<{ clientId: string; userCode: string }> {
  const grant_types = ["urn:ietf:params:oauth:grant-type:device_code"];
  const { client_id } = await door.must<{ client_id: string }>("POST", "/oauth/register", { grant_types });
  const body = new URLSearchParams({ client_id });
  const answer = await fetch(`${door.origin}/oauth2/device_authorization`, { method: "POST", body });
  if (answer.status !== 200) throw new Error(`no code: ${answer.status} ${await answer.text()}`);
  return { clientId: client_id, userCode: ((await answer.json()) as { user_code: string }).user_code };
}

/** Nobody receives there. */
const WEBHOOK_URL = "https://receiver.invalid/";

/** Returns the path of the domains of a new web service. */
async function domainsPath(door: Door): Promise<string> {
  const project = await door.must<Made>("POST", `${door.A}/projects`, { name: unique("p") });
  const P = `${door.A}/projects/${project.id}`;
  const environment = await door.must<Made>("POST", `${P}/environments`, { name: "production" });
  const E = `${P}/environments/${environment.id}`;
  await door.must("POST", `${E}/services`, { name: "web", type: "web" });
  return `${E}/services/web/domains`;
}

/** Deletes all webhooks: an account may have few. */
async function removeWebhooks(door: Door): Promise<void> {
  const ids = await listed(door, `${door.A}/webhooks`, () => true)();
  for (const id of ids) await door.must("DELETE", `${door.A}/webhooks/${id}`);
}

async function webhook(door: Door): Promise<{ id: string; path: string }> {
  await removeWebhooks(door);
  const { id } = await door.must<Made>("POST", `${door.A}/webhooks`, { url: WEBHOOK_URL });
  return { id, path: `${door.A}/webhooks/${id}` };
}

/** Returns an unread notification of the owner's: a token that was made is told. */
async function notified(door: Door): Promise<Made> {
  const name = unique("told");
  await door.must("POST", "/me/tokens", { name });
  return eventually("the new token is told", async () => {
    const { data } = await door.must<{ data: (Made & { title: string })[] }>(
      "GET",
      "/notifications?unread=true",
    );
    return data.find(({ title }) => title.includes(name));
  });
}

/** Returns the path of a postgres addon that runs. */
async function runningAddon(door: Door): Promise<string> {
  const { E, S } = await door.environment();
  await door.must("POST", `${E}/services`, { name: "db", type: "postgres" });
  await eventually("the addon runs", async () => {
    const { status } = await door.must<{ status: string }>("GET", S("db"));
    return status === "running";
  });
  return S("db");
}
