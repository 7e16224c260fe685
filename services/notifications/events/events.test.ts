import { afterAll, beforeAll, expect, test } from "vitest";
import * as deployer from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import * as identity from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { newId } from "../../kit/ids.ts";
import { at, startWithMembers, summaryOf } from "./testing.ts";

type Scene = Awaited<ReturnType<typeof startWithMembers>>;

let service: Scene["service"];
let people: Scene["people"];
let accountId: string;
let serviceId: string;
let publish: Scene["publish"];

beforeAll(async () => {
  ({ service, people, accountId, publish } = await startWithMembers());
  const deployment = {
    errorMessage: "npm ci exited 1\nat …",
    errorCode: "build_failed",
    errorStage: "build",
  };
  serviceId = service.service(accountId, { deployment, servingVersion: 3 });
});
afterAll(() => service.stop());

test("outcomes of a deployment notify their audience, each once", async () => {
  const event = { accountId, serviceId, deploymentId: "dep_1", version: 14 };
  const failed = await publish("deployer", deployer.DeploymentFailedSchema, event);
  expect(summaryOf(failed)).toEqual(["actor", "editor", "owner"].map((to) => `${to} deploy.failed`));
  expect(failed[0]).toMatchObject({
    title: "Deployment 14 of web failed in build: npm ci exited 1",
    body: "web in shop, production: npm ci exited 1. Version 3 keeps running. Fix the cause, then deploy again.",
  });
  expect(await publish("deployer", deployer.DeploymentSupersededSchema, event)).toEqual([]);
  expect(await publish("deployer", deployer.DeploymentQueuedSchema, event)).toEqual([]);
  const rollback = await publish("deployer", deployer.DeploymentQueuedSchema, { ...event, rollbackOf: 3 });
  expect(rollback[0]).toMatchObject({ kind: "deploy.rolled_back", title: "Rollback of web to version 3" });
  const dangling = { ...event, name: "DB", reason: "service_not_found", revision: 4 };
  const left = await publish("deployer", deployer.VariableDanglingSchema, dangling);
  expect(summaryOf(left)).toEqual(["actor", "editor", "owner"].map((to) => `${to} deploy.config_dangling`));
  expect(left[0].title).toBe("DB of web does not resolve");
});

test("who may act on a domain hears once that it is served, and that it failed", async () => {
  const domain = { accountId, serviceId, domainId: "dom_1", host: "shop.example.com" };
  const active = await publish("deployer", deployer.DomainActivatedSchema, { ...domain, at: at(1) });
  expect(summaryOf(active)).toEqual(["actor", "editor", "owner"].map((to) => `${to} domain.active`));
  expect(active[0]).toMatchObject({
    title: "shop.example.com is served",
    body: "web in shop, production answers at shop.example.com.",
    metadata: { domainId: "dom_1", host: "shop.example.com", service: "web" },
  });
  expect(await publish("deployer", deployer.DomainActivatedSchema, { ...domain, at: at(1) })).toEqual([]);
  const failed = { ...domain, reason: "Its record is gone.", at: at(2) };
  const [first] = await publish("deployer", deployer.DomainFailedSchema, failed);
  expect(first).toMatchObject({
    kind: "domain.failed",
    title: "The domain shop.example.com failed",
    body: "shop.example.com of web in shop, production: Its record is gone.",
  });
});

test("who may act hears when scheduled runs begin to fail, and when they no longer do", async () => {
  const ended = (more: object) =>
    publish("deployer", deployer.RunEndedSchema, {
      ...{ accountId, serviceId, runId: newId("run"), trigger: "schedule", status: "failed", at: at(1) },
      ...more,
    });
  const failed = await ended({ runId: "run_1", exitCode: 3 });
  expect(summaryOf(failed)).toEqual(["actor", "editor", "owner"].map((to) => `${to} job.failed`));
  expect(failed[0]).toMatchObject({
    title: "A scheduled run of web failed",
    body: "web in shop, production: It exited with 3. Further failures are not announced until a scheduled run succeeds.",
    metadata: { runId: "run_1", service: "web" },
  });
  expect(await ended({ status: "lost", message: "Its machine stopped.", previousFailed: true })).toEqual([]);
  const recovered = await ended({ status: "succeeded", exitCode: 0, previousFailed: true });
  expect(summaryOf(recovered)).toEqual(["actor", "editor", "owner"].map((to) => `${to} job.recovered`));
  expect(await ended({ status: "succeeded", exitCode: 0 })).toEqual([]);
  expect(await ended({ trigger: "manual", exitCode: 1 })).toEqual([]);
  const slow = await ended({ status: "timed_out", message: "It took longer than 60 seconds and was ended." });
  expect(slow[0].body).toMatch(
    /^web in shop, production: It took longer than 60 seconds and was ended\. Further/,
  );
});

test("who may act on an addon hears once that a backup of it failed", async () => {
  const backup = { accountId, serviceId, backupId: "bkp_1", reason: "The disk is full.", at: at(1) };
  const failed = await publish("deployer", deployer.BackupFailedSchema, backup);
  expect(summaryOf(failed)).toEqual(["actor", "editor", "owner"].map((to) => `${to} backup.failed`));
  expect(failed[0]).toMatchObject({
    title: "A backup of web failed",
    body: "web in shop, production was not backed up: The disk is full.",
    metadata: { backupId: "bkp_1", service: "web" },
  });
  expect(await publish("deployer", deployer.BackupFailedSchema, backup)).toEqual([]);
});

test("who may act on an addon hears that a standby took over, each time", async () => {
  const over = (minute: number) => ({ accountId, serviceId, at: at(minute) });
  const heard = await publish("deployer", deployer.AddonFailedOverSchema, over(1));
  expect(summaryOf(heard)).toEqual(["actor", "editor", "owner"].map((to) => `${to} addon.failover`));
  expect(heard[0]).toMatchObject({ title: "A standby of web took over", metadata: { service: "web" } });
  expect(await publish("deployer", deployer.AddonFailedOverSchema, over(1))).toEqual([]);
  expect(await publish("deployer", deployer.AddonFailedOverSchema, over(2))).toHaveLength(heard.length);
});

test("who may act on an addon hears that its volume fills, whether it grows, and what to do if not", async () => {
  const filling = (more: object) =>
    publish("deployer", deployer.AddonStorageFillingSchema, {
      accountId,
      serviceId,
      storageGib: 10,
      ...more,
    });
  const grown = await filling({ usedPercent: 86, grownToGib: 13, at: at(1) });
  expect(summaryOf(grown)).toEqual(["actor", "editor", "owner"].map((to) => `${to} storage.filling`));
  expect(grown[0]).toMatchObject({
    title: "The volume of web grows to 13 GiB",
    body: "The volume of web in shop, production was 86 % full, and grows from 10 to 13 GiB.",
    metadata: { service: "web", usedPercent: "86", storageGib: "10", grownToGib: "13" },
  });
  const full = await filling({ usedPercent: 92, reason: "Enlarge it before it is full.", at: at(2) });
  expect(full[0]).toMatchObject({
    title: "The volume of web is 92 % full",
    body: "The volume of web in shop, production is 92 % full (of 10 GiB). Enlarge it before it is full.",
    metadata: { service: "web", usedPercent: "92", storageGib: "10", grownToGib: "0" },
  });
  expect(await filling({ usedPercent: 92, reason: "Enlarge it before it is full.", at: at(2) })).toEqual([]);
});

test("an incident yields one notice, and so does its end; events without a time count from their arrival", async () => {
  const id = service.service(accountId, {
    servingVersion: 2,
    deployment: { rolloutMessage: "It exited with 7.", wasHealthy: true },
  });
  const sick = (minute: number) => ({
    accountId,
    serviceId: id,
    version: 2,
    code: "crash_loop",
    at: at(minute),
  });
  const well = (minute: number, more = {}) => ({
    accountId,
    serviceId: id,
    version: 2,
    at: at(minute),
    ...more,
  });
  const begun = await publish("deployer", deployer.ReleaseUnhealthySchema, sick(0));
  expect(summaryOf(begun)).toEqual(["actor", "editor", "owner"].map((to) => `${to} deploy.unhealthy`));
  expect(begun[0].body).toContain("It exited with 7.");
  expect(await publish("deployer", deployer.ReleaseUnhealthySchema, sick(1))).toEqual([]);
  expect(summaryOf(await publish("deployer", deployer.ReleaseRecoveredSchema, well(2)))[1]).toBe(
    "editor deploy.recovered",
  );
  expect(await publish("deployer", deployer.ReleaseUnhealthySchema, sick(9))).toEqual([]);
  expect(await publish("deployer", deployer.ReleaseRecoveredSchema, well(10))).toEqual([]);
  expect(await publish("deployer", deployer.ReleaseUnhealthySchema, sick(7))).toEqual([]);
  expect(await publish("deployer", deployer.ReleaseUnhealthySchema, sick(30))).toHaveLength(3);
  const ready = await publish("deployer", deployer.ReleaseHealthySchema, well(31));
  expect(summaryOf(ready)[1]).toBe("editor deploy.ready");
  expect(
    await publish("deployer", deployer.ReleaseRecoveredSchema, well(31, { firstHealthy: true })),
  ).toEqual([]);

  const old = service.service(accountId);
  const untimed = { accountId, serviceId: old, version: 1, code: "crash_loop" };
  const first = await publish("deployer", deployer.ReleaseUnhealthySchema, untimed);
  expect(first[0]).toMatchObject({ title: "Version 1 of web does not become healthy" });
  expect(await publish("deployer", deployer.ReleaseRecoveredSchema, untimed)).toHaveLength(3);
});

test("deployments and health of a deleted service yield no notice", async () => {
  const event = { accountId, serviceId: newId("svc"), version: 1, code: "crash_loop", at: at(0) };
  for (const schema of [
    deployer.DeploymentFailedSchema,
    deployer.ReleaseHealthySchema,
    deployer.ReleaseUnhealthySchema,
    deployer.ReleaseRecoveredSchema,
    deployer.VariableDanglingSchema,
  ] as const)
    expect(await publish("deployer", schema as typeof deployer.ReleaseUnhealthySchema, event)).toEqual([]);
});

test("owners are notified of the outermost deleted resource, also by a deployer that does not name it", async () => {
  const ids = { accountId, projectId: "prj_1", environmentId: "env_1", serviceId: "svc_1" };
  const inner = { ...ids, name: "web", type: "web", withEnvironment: true };
  expect(await publish("deployer", deployer.ServiceDeletedSchema, inner)).toEqual([]);
  const middle = { ...ids, name: "production", withProject: true };
  expect(await publish("deployer", deployer.EnvironmentDeletedSchema, middle)).toEqual([]);
  const byUserId = people.actor.userId;
  const project = await publish("deployer", deployer.ProjectDeletedSchema, {
    ...ids,
    name: "shop",
    byUserId,
    services: 2,
  });
  expect(summaryOf(project)).toEqual(["actor deletion.completed", "owner deletion.completed"]);
  expect(project[0]).toMatchObject({
    title: "Project shop was deleted",
    mailState: expect.stringMatching(/queued|sent/),
  });
  expect(project[0].body).toMatch(
    /^Ada deleted it from h\w+, with its 2 services and their data\. This cannot/,
  );
  const addon = {
    ...ids,
    serviceId: "svc_2",
    name: "db",
    type: "postgres",
    projectName: "shop",
    environmentName: "production",
    byUserId,
  };
  const [gone] = await publish("deployer", deployer.ServiceDeletedSchema, addon);
  expect(gone).toMatchObject({ title: "Addon db of shop, production was deleted" });
  expect(gone.body).toContain("with all its PostgreSQL data");
  const [old] = await publish("deployer", deployer.ServiceDeletedSchema, { ...ids, serviceId: "svc_3" });
  expect(old).toMatchObject({
    title: "A service was deleted",
    body: expect.stringMatching(/^Somebody deleted it/),
  });
});

test("members who join, leave or are removed: the other owners are notified, and so is who was removed", async () => {
  const { reader, actor } = people;
  const joined = { accountId, userId: reader.userId, role: "reader", at: at(0) };
  expect(summaryOf(await publish("identity", identity.MemberAddedSchema, joined))).toEqual([
    "actor member.joined",
    "owner member.joined",
  ]);
  expect(
    await publish("identity", identity.MemberAddedSchema, { ...joined, founder: true, at: at(1) }),
  ).toEqual([]);
  const removed = { accountId, userId: reader.userId, byUserId: actor.userId, at: at(2) };
  expect(summaryOf(await publish("identity", identity.MemberRemovedSchema, removed))).toEqual([
    "owner member.left",
    "reader member.removed",
  ]);
  const left = { accountId, userId: actor.userId, byUserId: actor.userId, at: at(3) };
  expect(summaryOf(await publish("identity", identity.MemberRemovedSchema, left))).toEqual([
    "owner member.left",
  ]);
  const old = await publish("identity", identity.MemberRemovedSchema, {
    accountId,
    userId: people.editor.userId,
  });
  expect(summaryOf(old)).toEqual(["actor member.left", "editor member.removed", "owner member.left"]);
  const gone = await publish("identity", identity.MemberRemovedSchema, {
    accountId,
    userId: newId("usr"),
    byUserId: actor.userId,
  });
  expect(summaryOf(gone)).toEqual(["owner member.left"]);
  expect(gone[0].title).toMatch(/^Ada removed A member from/);
});

test("a role that changes there and back yields a notice each time; an invitation one, which only identity mails", async () => {
  const { reader, actor } = people;
  for (const [role, previousRole, minute] of [
    ["editor", "reader", 0],
    ["reader", "editor", 1],
    ["editor", "reader", 2],
  ] as const) {
    const event = { accountId, userId: reader.userId, role, previousRole, at: at(minute) };
    expect(summaryOf(await publish("identity", identity.MemberRoleChangedSchema, event))).toEqual([
      "reader member.role_changed",
    ]);
  }
  const invitation = { accountId, invitationId: "inv_1", role: "owner", invitedByUserId: actor.userId };
  expect(await publish("identity", identity.InvitationCreatedSchema, invitation)).toEqual([]);
  const [received] = await publish("identity", identity.InvitationCreatedSchema, {
    ...invitation,
    userId: reader.userId,
  });
  expect(received).toMatchObject({ to: "reader", kind: "member.invited", mailState: "none" });
  expect(received.body).toMatch(/^Ada invited you to be an owner of h/);
});
