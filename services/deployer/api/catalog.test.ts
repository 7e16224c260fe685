import { createHash } from "node:crypto";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import { InternalService } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { newId } from "../../kit/ids.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { actAs, startDeployer, type TestDeployer } from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

test("projects, environments and services are created, read, listed newest first, and renamed", async () => {
  const { accountId, catalog } = actAs(berth.port, newId("acc"));
  const names = ["one", "two", "three"];
  for (const name of names) await catalog.createProject({ accountId, name });
  const first = await catalog.listProjects({ accountId, limit: 2 });
  expect(first.data.map((one) => one.name)).toEqual(["three", "two"]);
  const cursor = first.page!.nextCursor;
  const rest = await catalog.listProjects({ accountId, limit: 2, cursor });
  expect([rest.data.map((one) => one.name), rest.page]).toMatchObject([
    ["one"],
    { hasMore: false, nextCursor: "" },
  ]);

  const other = actAs(berth.port, newId("acc"));
  expect(await refused(other.catalog.listProjects({ accountId: other.accountId, cursor }))).toBe(
    "400 malformed_request",
  );

  const projectId = rest.data[0]!.id;
  expect((await catalog.updateProject({ accountId, projectId, name: "uno" })).name).toBe("uno");
  expect((await catalog.getProject({ accountId, projectId })).name).toBe("uno");
  const environment = await catalog.createEnvironment({ accountId, projectId, name: "production" });
  expect(environment.projectId).toBe(projectId);
  const listed = await catalog.listEnvironments({ accountId, projectId });
  expect(listed.data.map((one) => one.id)).toEqual([environment.id]);
  expect((await catalog.getEnvironment({ accountId, projectId, environmentId: environment.id })).name).toBe(
    "production",
  );

  const base = { accountId, projectId, environmentId: environment.id };
  const made = await catalog.createService({ ...base, name: "web", type: "web" });
  expect(made).toMatchObject({
    name: "web",
    type: "web",
    status: "pending",
    config: { port: 8080, replicas: 1, size: "nano", env: {}, autoApply: true, public: true },
    pendingChanges: false,
    staged: false,
  });
  await catalog.createService({ ...base, name: "jobs", type: "worker", source: { image: "shop/jobs:1" } });
  const services = await catalog.listServices({ ...base, limit: 1 });
  expect(services).toMatchObject({ data: [{ name: "jobs", source: { image: "shop/jobs:1" } }] });
  const more = await catalog.listServices({ ...base, cursor: services.page!.nextCursor });
  expect(more.data.map((one) => one.id)).toEqual([made.id]);
});

test("a name is taken once in its parent, and free in another", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const { accountId, catalog } = acting;
  const { projectId, environmentId, project } = await acting.environment();
  const other = await catalog.createProject({ accountId, name: "other" });
  expect(await refused(catalog.createProject({ accountId, name: project }))).toBe("409 name_taken");
  expect(await refused(catalog.updateProject({ accountId, projectId: other.id, name: project }))).toBe(
    "409 name_taken",
  );
  expect(await refused(catalog.createEnvironment({ accountId, projectId, name: "production" }))).toBe(
    "409 name_taken",
  );
  await catalog.createEnvironment({ accountId, projectId: other.id, name: "production" });
  const service = { accountId, projectId, environmentId, name: "web", type: "web" };
  const results = await Promise.allSettled([1, 2, 3].map(() => catalog.createService(service)));
  expect(results.filter((result) => result.status === "fulfilled")).toHaveLength(1);
  expect(await refused(catalog.createService(service))).toBe("409 name_taken");
});

test("bad names, types, sources and configurations are refused by their reason", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const { accountId, catalog } = acting;
  const { projectId, environmentId } = await acting.environment();
  for (const name of ["", "Web", "1st", "a_b", "x".repeat(41)])
    expect(await refused(catalog.createProject({ accountId, name }))).toBe(
      "422 validation_failed invalid_name",
    );
  const create = (more: object) =>
    refused(
      catalog.createService({ accountId, projectId, environmentId, name: "web", type: "web", ...more }),
    );
  const git = { repository: "https://example.com/a.git", branch: "main" };
  const cases: [object, string][] = [
    [{ type: "mysql" }, "invalid_choice"],
    [{ source: { image: "a", git } }, "invalid_source"],
    [{ type: "postgres", source: { image: "a" } }, "invalid_source"],
    [{ type: "redis", config: { replicas: 2 } }, "not_supported_here"],
    [{ type: "redis", config: { pooler: true } }, "not_deployable"],
    [{ type: "postgres", config: { env: { A: "1" } } }, "not_deployable"],
    [{ config: { size: "huge" } }, "invalid_choice"],
    [{ config: { replicas: 21 } }, "out_of_range"],
    [{ config: { port: 0 } }, "out_of_range"],
    [{ config: { minReadySeconds: 61 } }, "out_of_range"],
    [{ config: { healthCheckPath: "health" } }, "invalid_path"],
    [{ type: "worker", config: { public: false } }, "not_for_type"],
    ...["metrics", "/a?b", "/a#b", "/a b", "/\n", `/${"x".repeat(512)}`].map(
      (metricsPath) => [{ config: { metricsPath } }, "invalid_path"] as [object, string],
    ),
    [{ type: "cron", config: { metricsPath: "/metrics" } }, "not_for_type"],
    [{ type: "redis", config: { metricsPath: "/metrics" } }, "not_deployable"],
    [{ type: "cron", config: { public: false } }, "not_for_type"],
    [{ type: "postgres", config: { public: false } }, "not_deployable"],
    [{ config: { dockerfile: "../Dockerfile" } }, "invalid_path"],
    [{ config: { command: "x".repeat(4097) } }, "too_long"],
    [{ config: { env: { "1A": "x" } } }, "invalid_name"],
    [{ config: { env: { PORT: "80" } } }, "reserved_name"],
    [{ config: { env: { PLATFORM_VARIABLES_REVISION: "1" } } }, "reserved_name"],
    [{ config: { env: { A: "a\0b" } } }, "value_invalid"],
    [{ config: { command: "a\0b" } }, "value_invalid"],
    [{ config: { dockerfile: "a\0b" } }, "invalid_path"],
    [{ config: { healthCheckPath: "/a\0b" } }, "invalid_path"],
    [{ source: { image: "shop/web\0:1" } }, "invalid_image"],
    [{ source: { image: "Shop/Web:1" } }, "invalid_image"],
    [{ source: { image: "https://images.example/web" } }, "invalid_image"],
    [{ source: { git: { ...git, contextDir: "a\0b" } } }, "invalid_source"],
    [{ source: { git: { ...git, branch: "a\0b" } } }, "invalid_source"],
  ];
  for (const [more, reason] of cases)
    expect([more, await create(more)]).toEqual([more, `422 validation_failed ${reason}`]);
});

test("nothing is deleted while variables does not answer: 503, and everything stays", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const base = await acting.environment();
  const { accountId, projectId } = base;
  const { catalog } = acting;
  await catalog.createService({ ...base, name: "web", type: "web" });
  berth.variables.setAway(true);
  for (const call of [
    () => catalog.deleteService(base.at("web")),
    () => catalog.deleteEnvironment(base),
    () => catalog.deleteProject({ accountId, projectId }),
  ])
    expect(await refused(call())).toBe("503 unavailable");
  berth.variables.setAway(false);
  expect(await catalog.getService(base.at("web"))).toMatchObject({ status: "pending" });
  await catalog.deleteProject({ accountId, projectId });
  expect(await refused(catalog.getService(base.at("web")))).toBe("404 not_found");
});

test("entries of config.env are set only once variables knows of them, everything else without", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const base = await acting.environment();
  const { catalog } = acting;
  await catalog.createService({ ...base, name: "web", type: "web", config: { env: { A: "1" } } });
  berth.variables.setAway(true);
  const change = { env: { B: "2" } };
  expect(await refused(catalog.updateService({ ...base.at("web"), config: change }))).toBe("503 unavailable");
  await catalog.updateService({ ...base.at("web"), config: { port: 9000 }, unsetEnv: ["A"] });
  berth.variables.setAway(false);
  expect((await catalog.getService(base.at("web"))).config).toMatchObject({ port: 9000, env: {} });
  const { config } = await catalog.updateService({ ...base.at("web"), config: change });
  expect(config?.env).toEqual({ B: "2" });
});

test("what is not in the caller's account or not under the path is not found", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const mine = await acting.environment();
  const stranger = actAs(berth.port, newId("acc"));
  const theirs = await stranger.environment();
  const { accountId } = mine;
  const { catalog, deployments } = acting;
  const foreign = { accountId, projectId: theirs.projectId, environmentId: theirs.environmentId };
  const crossed = { accountId, projectId: mine.projectId, environmentId: theirs.environmentId };
  const calls = [
    catalog.getProject(foreign),
    catalog.updateProject({ ...foreign, name: "mine" }),
    catalog.deleteProject(foreign),
    catalog.listEnvironments(foreign),
    catalog.createEnvironment({ ...foreign, name: "x" }),
    catalog.getEnvironment(crossed),
    catalog.deleteEnvironment(crossed),
    catalog.listServices(crossed),
    catalog.createService({ ...crossed, name: "web", type: "web" }),
    catalog.applyEnvironment(crossed),
    catalog.getService(mine.at("none")),
    catalog.updateService({ ...mine.at("none"), config: { replicas: 1 } }),
    catalog.deleteService(mine.at("none")),
    deployments.deploy(mine.at("none")),
    deployments.createUpload(mine.at("none")),
    deployments.deployFromArchive({ ...mine.at("none"), archiveRef: "arc_x" }),
    deployments.listDeployments(mine.at("none")),
    deployments.listLogs({ ...crossed, service: "web" }),
  ];
  expect(new Set(await Promise.all(calls.map(refused)))).toEqual(new Set(["404 not_found"]));
  expect(await refused(catalog.listProjects({ accountId, cursor: "bm8" }))).toBe("400 malformed_request");
});

test("an update changes the given members alone, merges env by name and removes what is named", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const { catalog } = acting;
  const environment = await acting.environment();
  const path = environment.at("web");
  const config = { command: "npm start", env: { A: "1", B: "2" }, healthCheckPath: "/up" };
  await catalog.createService({ ...environment, name: "web", type: "web", config });
  const patched = await catalog.updateService({
    ...path,
    config: { size: "small", command: "", env: { B: "3", C: "4" } },
    unsetEnv: ["A"],
    source: { image: "shop/web:2" },
  });
  expect(patched.config).toMatchObject({ size: "small", port: 8080, healthCheckPath: "/up" });
  expect(patched.config!.env).toEqual({ B: "3", C: "4" });
  expect(patched.config!.command).toBeUndefined();
  expect(patched.source!.image).toBe("shop/web:2");
  const cleared = await catalog.updateService({ ...path, source: {}, unsetEnv: ["B", "C"] });
  expect([cleared.source!.image, cleared.config!.env]).toEqual([undefined, {}]);
  expect(await refused(catalog.updateService(path))).toBe("422 validation_failed empty_patch");
});

test("a deletion without live services needs no confirmation, and its name is free again soon", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const { accountId, catalog } = acting;
  const environment = await acting.environment();
  const { projectId, environmentId } = environment;
  await catalog.createService({ ...environment, name: "web", type: "web" });
  await catalog.deleteProject({ accountId, projectId });
  const calls = [
    catalog.getProject({ accountId, projectId }),
    catalog.getEnvironment({ accountId, projectId, environmentId }),
    catalog.getService(environment.at("web")),
    catalog.deleteProject({ accountId, projectId }),
  ];
  expect(new Set(await Promise.all(calls.map(refused)))).toEqual(new Set(["404 not_found"]));
  await eventually("the rows are gone", async () => {
    const left = await berth.pool.query("select from projects where id = $1", [projectId]);
    return left.rowCount === 0;
  });
  await catalog.createProject({ accountId, name: environment.project });
  const kinds = await eventually("the events arrive", async () => {
    const found = await berth.eventsOf(accountId);
    return found.includes("ProjectDeleted") && found;
  });
  for (const kind of ["Project", "Environment", "Service"])
    expect(kinds).toEqual(expect.arrayContaining([`${kind}Created`, `${kind}Deleted`]));
  expect(kinds).toContain("AuditRecorded");
});

test("other services find the scopes of a path and of a service, and nothing that is deleted", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const { catalog } = acting;
  const { asService } = berth;
  const environment = await acting.environment();
  const { accountId, projectId, environmentId } = environment;
  const made = await catalog.createService({ ...environment, name: "web", type: "web" });
  const whole = {
    accountId,
    projectId,
    environmentId,
    serviceId: made.id,
    serviceName: "web",
    serviceType: "web",
  };
  expect(await asService.resolveScope(environment.at("web"))).toMatchObject(whole);
  expect(await asService.resolveScope({ serviceId: made.id })).toMatchObject(whole);
  expect((await asService.resolveScope({ accountId, projectId })).environmentId).toBeUndefined();
  expect(await refused(asService.resolveScope({ accountId: newId("acc"), projectId }))).toBe("404 not_found");
  expect(await refused(asService.resolveScope(environment.at("none")))).toBe("404 not_found");
  expect(await refused(asService.getAddonKeys({ serviceId: made.id }))).toBe("404 not_found");
  const byUser = clientAs(InternalService, berth.port, { accountId, role: "owner" });
  expect(await refused(byUser.resolveScope({ accountId, serviceId: made.id }))).toBe("403 forbidden");
  await catalog.deleteService(environment.at("web"));
  expect(await refused(asService.resolveScope({ serviceId: made.id }))).toBe("404 not_found");
});

test("a renamed service keeps what its objects are called, and no other service gets that", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const { accountId, catalog } = acting;
  const environment = await acting.environment();
  const create = (name: string, type = "web") => catalog.createService({ ...environment, name, type });
  const rename = (from: string, name: string) => catalog.updateService({ ...environment.at(from), name });
  const objects = async () => {
    const { rows } = await berth.pool.query<{ id: string; name: string; object: string }>(
      "select id, name, coalesce(object_name, name) as object from services where environment_id = $1",
      [environment.environmentId],
    );
    expect(new Set(rows.map(({ object }) => object)).size).toBe(rows.length);
    return Object.fromEntries(rows.map(({ name, object }) => [name, object]));
  };
  const web = await create("web");
  await rename("web", "site");
  const next = await create("web");
  const hash = (id: string) => createHash("sha256").update(id).digest("hex").slice(0, 8);
  expect(await objects()).toEqual({ site: "web", web: `web-${hash(next.id)}` });
  await rename("web", "other");
  await rename("site", "web");
  const db = await create("site", "redis");
  expect(await objects()).toEqual({ web: "web", other: `web-${hash(next.id)}`, site: "site" });
  expect(await berth.asService.resolveScope(environment.at("web"))).toMatchObject({ serviceId: web.id });
  expect(await refused(rename("site", "cache"))).toBe("422 validation_failed not_deployable");
  expect(db.name).toBe("site");
  for (let n = 0; n < 5; n++) {
    const [from, to] = n % 2 === 0 ? ["web", "once"] : ["once", "web"];
    await Promise.all([rename(from!, to!), create(from!).catch(() => create(`spare${n}`))]);
    await objects();
    const left = await catalog.listServices(environment);
    for (const { name, id } of left.data) if (name === from && id !== web.id) await rename(name, `moved${n}`);
  }
  const kinds = await eventually("the event arrives", async () => {
    const found = await berth.eventsOf(accountId);
    return found.includes("ServiceRenamed") && found;
  });
  expect(kinds).toContain("AuditRecorded");
});

test("each name of a service is later than the one before, and unless variables hears of it there is none", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const { catalog } = acting;
  const environment = await acting.environment();
  const { id } = await catalog.createService({ ...environment, name: "web", type: "worker" });
  const since = async () => timestampMs((await berth.asService.resolveScope({ serviceId: id })).namedAt!);
  const times = [await since()];
  for (const [from, name] of [
    ["web", "one"],
    ["one", "two"],
    ["two", "web"],
  ] as const) {
    await catalog.updateService({ ...environment.at(from), name });
    times.push(await since());
  }
  expect(new Set(times).size).toBe(times.length);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  berth.variables.setAway(true);
  expect(await refused(catalog.updateService({ ...environment.at("web"), name: "x" }))).toBe(
    "503 unavailable",
  );
  berth.variables.setAway(false);
  expect((await catalog.getService(environment.at("web"))).id).toBe(id);
  await catalog.deleteService(environment.at("web"));
  expect(await refused(catalog.updateService({ ...environment.at("web"), name: "x" }))).toMatch(
    /^(409 service_deleting|404 not_found)/,
  );
});

test("a service waits for a rename of its project that is under way, so that its address is the new one", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const { accountId, catalog } = acting;
  const environment = await acting.environment();
  const { projectId } = environment;
  await catalog.createService({ ...environment, name: "web", type: "web" });
  const waiting = (count: number) =>
    eventually(`${count} wait for a lock`, async () => {
      const { rowCount } = await berth.pool.query(
        "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
      );
      return rowCount === count && "waiting";
    });
  const other = await berth.pool.connect();
  try {
    await other.query("begin");
    await other.query("select from services where environment_id = $1 for update", [
      environment.environmentId,
    ]);
    const renamed = catalog.updateProject({ accountId, projectId, name: "renamed" });
    await waiting(1);
    const created = catalog.createService({ ...environment, name: "late", type: "web" });
    expect(await Promise.race([waiting(2), created.then(() => "created")])).toBe("waiting");
    await other.query("commit");
    expect((await renamed).name).toBe("renamed");
    expect((await created).name).toBe("late");
  } finally {
    other.release();
  }
});

test("a reader may read and change nothing", async () => {
  const owner = actAs(berth.port, newId("acc"));
  const environment = await owner.environment();
  const { accountId } = owner;
  const { catalog, deployments } = actAs(berth.port, accountId, "reader");
  expect((await catalog.listProjects({ accountId })).data).toHaveLength(1);
  const refusals = [
    catalog.createProject({ accountId, name: "x" }),
    catalog.deleteProject(environment),
    catalog.createService({ ...environment, name: "web", type: "web" }),
    deployments.deploy(environment.at("web")),
  ];
  for (const said of await Promise.all(refusals.map(refusal)))
    expect(said).toMatchObject({ code: "forbidden", context: { requiredRole: "editor" } });
});
