import { randomBytes } from "node:crypto";
import { cp, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { createPool } from "../../kit/postgres/db.ts";
import { migrate } from "../../kit/postgres/migrate.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { eventually, testDatabase } from "../../kit/testing/testing.ts";
import { builtImages } from "../builder/job/registry/built-images.ts";
import { startLocalEngine } from "../engine/local.ts";
import type { ServicePath } from "../projects/services-sql.ts";
import { imageArtifact } from "../terms/artifact.ts";
import { actAs, startDeployer, type TestDeployer } from "../testing/testing.ts";

// A deployer whose builds would push to a registry of its own. Build results are written directly, and removals
// are recorded instead of performed.

const registry = { push: "10.99.0.1:5000/berth", pull: "registry.test:5000/berth" };
const ALLOWED = "index.docker.io/library, Registry.test:5000/node,registry.test:5000/berth/base";
const NOT_ALLOWED = "422 validation_failed image_not_allowed";
/** All that this runtime, one machine, says against an image that the account may use. */
const TAKEN = ["image_needs_cluster"];
const removed: { artifact: string; builtBy: string }[] = [];
let berth: TestDeployer;

beforeAll(async () => {
  berth = await startDeployer({ ALLOWED_REGISTRIES: ALLOWED }, async (config, secrets, log) => {
    if (config.engine === "kubernetes") throw new Error("this runs on one machine");
    const engine = await startLocalEngine(config, secrets, log);
    const removeArtifact = async (artifact: string, builtBy: string) =>
      void removed.push({ artifact, builtBy });
    return {
      ...engine,
      isBuiltImage: builtImages(registry),
      builder: { ...engine.builder, removeArtifact },
    };
  });
});
afterAll(() => berth?.stop());

/** An account with a service, and the image of a build that it made. */
async function account() {
  const accountId = newId("acc");
  const acting = actAs(berth.port, accountId);
  const environment = await acting.environment();
  const web = await acting.catalog.createService({ ...environment, name: "web", type: "web" });
  const image = await built(web.id, 1);
  return { ...acting, accountId, environment, path: environment.at("web"), id: web.id, image };
}

/** A finished deployment of a build, as it is in the database. */
async function built(serviceId: string, version: number): Promise<string> {
  const image = `${registry.pull}/apps@sha256:${randomBytes(32).toString("hex")}`;
  const row = { id: newId("dep"), build: newId("bld") };
  await berth.pool.query("update services set next_version = $2 + 1 where id = $1", [serviceId, version]);
  await berth.pool.query(
    `insert into deployments (id, service_id, version, status, config, source, build_id)
     values ($1, $2, $3, 'building', '{"size": "nano", "port": 8080, "replicas": 1}', '{}', $4)`,
    [row.id, serviceId, version, row.build],
  );
  await berth.pool.query(
    `update deployments set status = 'applied', artifact = $2, image = $3, built_at = now(), applied_at = now(),
       healthy_at = now() where id = $1`,
    [row.id, imageArtifact(image), image],
  );
  return image;
}

/** A deployment of an image that no build made, as an older version accepted it. */
async function accepted(serviceId: string, version: number, image: string, status = "applied") {
  const at = status === "applied" ? new Date() : null;
  await berth.pool.query(
    `with taken as (update services set next_version = $3 + 1 where id = $2)
     insert into deployments (id, service_id, version, status, config, source, artifact, image, applied_at, healthy_at)
     values ($1, $2, $3, $4, '{"size": "nano", "port": 8080, "replicas": 1}', '{}', $5, $6, $7, $7)`,
    [newId("dep"), serviceId, version, status, imageArtifact(image), image, at],
  );
}

const due = (serviceId: string) =>
  berth.pool.query("update work set next_at = now() where service_id = $1", [serviceId]);

const names = (image: string) => {
  const digest = image.slice(image.indexOf("@"));
  return [
    image,
    `REGISTRY.TEST:05000/berth/apps${digest}`,
    `10.99.0.1:5000/berth/apps${digest}`,
    `registry.test:5000/berth/apps:any${digest}`,
    `registry.test:5000/berth/cache${digest}`,
  ];
};

test("an image of another account is refused wherever a reference is stored or deployed", async () => {
  const [mine, other] = [await account(), await account()];
  const { environment, path, catalog, deployments, tryOut } = mine;
  const inPathOf = (accountId: string) => mine.image.replace("/apps@", `/apps/${accountId}@`);
  for (const image of [
    ...names(other.image),
    ...[`${registry.pull}/apps:bld_1`, `${registry.pull}/apps`, `${registry.pull}/apps/acc_1:bld_1`],
    ...[
      inPathOf(other.accountId),
      inPathOf("acc_1"),
      other.image.replace("/apps@", `/apps/${mine.accountId}@`),
    ],
  ]) {
    const source = { image };
    const service = { ...environment, name: "copy", type: "web", source };
    expect(await refused(catalog.createService(service))).toBe(NOT_ALLOWED);
    expect(await refused(catalog.createService({ ...service, staged: true }))).toBe(NOT_ALLOWED);
    expect(await refused(catalog.updateService({ ...path, source }))).toBe(NOT_ALLOWED);
    expect(await refused(deployments.deploy({ ...path, image }))).toBe(NOT_ALLOWED);
    expect((await tryOut.deploy({ ...path, image })).refusal).toMatchObject({
      reasons: ["image_not_allowed"],
    });
  }
  expect((await refusal(deployments.deploy({ ...path, image: other.image }))).paths).toEqual(["image"]);
  const { data } = await catalog.listServices(environment);
  expect(data.map(({ name, source }) => [name, source?.image])).toEqual([["web", undefined]]);
});

test("an account's own images and those of other registries are taken, also in another service of it", async () => {
  const { accountId, environment, path, catalog, image, tryOut } = await account();
  const inOwnPath = image.replace("/apps@", `/apps/${accountId}@`);
  const elsewhere = ["nginx:1.27", "registry.test:5000/node:1", "registry.test:5000/berth/base:1"];
  for (const each of [...names(image), inOwnPath, ...elsewhere]) {
    await catalog.updateService({ ...path, source: { image: each } });
    expect((await tryOut.deploy({ ...path, image: each })).refusal?.reasons).toEqual(TAKEN);
    expect((await tryOut.deploy(path)).refusal?.reasons).toEqual(TAKEN);
  }
  await catalog.createService({ ...environment, name: "copy", type: "web", source: { image } });
  expect((await tryOut.deploy(environment.at("copy"))).refusal?.reasons).toEqual(TAKEN);
});

test("an image of a registry that is not allowed is refused at every way in, and the refusal names those that are", async () => {
  const { environment, path, id, catalog, deployments, tryOut } = await account();
  const OTHER = "422 validation_failed registry_not_allowed";
  for (const image of [
    "quay.io/shop/web:1",
    "shop/web",
    "docker.io:80/library/nginx",
    "registry.test/node:1",
    "registry.test:5000/nodes:1",
    `registry.test:5000/berth/apps2@sha256:${"a".repeat(64)}`,
  ]) {
    const source = { image };
    const service = { ...environment, name: "copy", type: "web", source };
    expect(await refused(catalog.createService(service))).toBe(OTHER);
    expect(await refused(catalog.createService({ ...service, staged: true }))).toBe(OTHER);
    expect(await refused(catalog.updateService({ ...path, source }))).toBe(OTHER);
    expect(await refused(deployments.deploy({ ...path, image }))).toBe(OTHER);
    expect((await tryOut.deploy({ ...path, image })).refusal?.reasons).toEqual(["registry_not_allowed"]);
  }
  const image = "quay.io/shop/web:1";
  const refusedTag = await refusal(deployments.deploy({ ...path, image }));
  expect(refusedTag.paths).toEqual(["image"]);
  expect(JSON.stringify(refusedTag)).toContain(
    "may only come from docker.io/library, registry.test:5000/node, registry.test:5000/berth/base.",
  );
  // What was accepted while it was allowed.
  await accepted(id, 2, image);
  await accepted(id, 3, "nginx:1.27");
  await berth.pool.query("update services set live_version = 3 where id = $1", [id]);
  expect(await refused(deployments.rollback({ ...path, version: 2 }))).toBe(OTHER);
  const canvas = await catalog.createService({ ...environment, name: "canvas", type: "web", staged: true });
  await berth.pool.query("update services set source = $2 where id = $1", [canvas.id, { image }]);
  expect(await refused(catalog.applyEnvironment(environment))).toBe(OTHER);
});

test("what an older version stored or accepted is refused when it would be deployed, applied or rolled back to", async () => {
  const [mine, other] = [await account(), await account()];
  const { path, id, environment, catalog, deployments, tryOut } = mine;
  const store = (serviceId: string, image: string) =>
    berth.pool.query("update services set source = $2 where id = $1", [serviceId, { image }]);
  await store(id, other.image);
  expect(await refusal(deployments.deploy(path))).toMatchObject({
    reasons: ["image_not_allowed"],
    paths: ["source.image"],
  });
  expect((await tryOut.deploy(path)).refusal).toMatchObject({ reasons: ["image_not_allowed"] });

  await accepted(id, 2, other.image);
  await accepted(id, 3, "nginx:1.27");
  await berth.pool.query("update services set live_version = 3 where id = $1", [id]);
  expect(await refused(deployments.rollback({ ...path, version: 2 }))).toBe(NOT_ALLOWED);
  expect((await tryOut.rollback({ ...path, version: 2 })).refusal).toMatchObject({
    reasons: ["image_not_allowed"],
  });
  expect((await tryOut.rollback({ ...path, version: 1 })).refusal?.reasons).toEqual(TAKEN); // its own, built before

  const canvas = await catalog.createService({ ...environment, name: "canvas", type: "web", staged: true });
  await store(canvas.id, other.image);
  expect(await refusal(catalog.applyEnvironment(environment))).toMatchObject({
    reasons: ["image_not_allowed"],
    paths: ["canvas.source.image"],
  });

  const late = await catalog.createService({ ...environment, name: "late", type: "web" });
  await accepted(late.id, 1, other.image, "queued");
  await due(late.id);
  const failed = await mine.until(environment.at("late"), 1, "failed");
  expect(failed.errors).toMatchObject([{ stage: "apply", code: "image_not_allowed" }]);
});

test("an image stays while any service of its account runs or retains it, and goes with the last of them", async () => {
  const [mine, other] = [await account(), await account()];
  const { environment, catalog, path, image, id } = mine;
  const copy = await catalog.createService({ ...environment, name: "copy", type: "web" });
  await accepted(copy.id, 1, names(image)[1]!);
  // As an older version accepted it: of another account, and by the name of that image.
  await accepted(other.id, 2, image);

  const gone = async (at: ServicePath) => {
    await catalog.deleteService({ ...at, confirmImpact: true });
    await eventually("the service is gone", async () =>
      (await refused(catalog.getService(at)).catch(() => "")).startsWith("404"),
    );
  };
  const mentions = () => removed.filter(({ artifact }) => artifact.includes(image.slice(image.indexOf("@"))));
  await other.catalog.deleteService({ ...other.path, confirmImpact: true });
  await eventually("the other account's service is gone", async () =>
    (await refused(other.catalog.getService(other.path)).catch(() => "")).startsWith("404"),
  );
  // Nothing of the builder's is asked for in the name of the service that built it.
  expect(mentions().filter(({ builtBy }) => builtBy === id)).toEqual([]);
  removed.length = 0;
  await gone(path);
  expect(mentions()).toEqual([]);
  const taken = await mine.tryOut.deploy({ ...environment.at("copy"), image });
  expect(taken.refusal?.reasons).toEqual(TAKEN);
  await gone(environment.at("copy"));
  expect(mentions()).toMatchObject([{ builtBy: id }]);

  // What is deleted together does not keep each other.
  const next = await catalog.createService({ ...environment, name: "next", type: "web" });
  const shared = await built(next.id, 1);
  const beside = await catalog.createService({ ...environment, name: "beside", type: "web" });
  await accepted(beside.id, 1, shared);
  removed.length = 0;
  await catalog.deleteEnvironment({ ...environment, confirmImpact: true });
  await eventually("the shared image is removed", async () =>
    removed.some(({ artifact, builtBy }) => artifact.includes(shared) && builtBy === next.id),
  );
});

test("an image that was removed is no longer the account's", async () => {
  const { environment, catalog, deployments, path, image } = await account();
  await catalog.deleteService({ ...path, confirmImpact: true });
  await eventually("the service is gone", async () =>
    (await refused(catalog.getService(path)).catch(() => "")).startsWith("404"),
  );
  const after = await catalog.createService({ ...environment, name: "after", type: "web" });
  expect(await refused(deployments.deploy({ ...environment.at(after.name), image }))).toBe(NOT_ALLOWED);
});

test("an image built before its owner was recorded stays its account's", async () => {
  const all = join(import.meta.dirname, "../migrations");
  const before = await mkdtemp(join(tmpdir(), "berth-migrations-"));
  await cp(all, before, { recursive: true });
  for (const name of await readdir(before)) if (name >= "0007") await rm(join(before, name));
  const database = await testDatabase(["deployer"]);
  const pool = createPool(database.url("deployer"));
  try {
    await migrate(pool, before);
    const image = `${registry.pull}/apps@sha256:${"a".repeat(64)}`;
    await pool.query("insert into projects (id, account_id, name) values ('prj', 'acc', 'shop')");
    await pool.query(
      "insert into environments (id, account_id, project_id, name) values ('env', 'acc', 'prj', 'production')",
    );
    await pool.query(
      `insert into services (id, account_id, project_id, environment_id, name, type, source, config, staged)
       values ('svc', 'acc', 'prj', 'env', 'web', 'web', '{}', '{}', false)`,
    );
    const deploy = (id: string, version: number, build: string | null, ref: string) =>
      pool.query(
        `insert into deployments (id, service_id, version, status, config, source, build_id, artifact, image)
         values ($1, 'svc', $2, 'applied', '{}', '{}', $3, $4, $5)`,
        [id, version, build, imageArtifact(ref), ref],
      );
    await deploy("dep_1", 1, "bld_1", image);
    await deploy("dep_2", 2, null, image.replaceAll("a".repeat(64), "b".repeat(64)));
    await migrate(pool, all);
    const { rows } = await pool.query("select account_id, service_id, digest from built_images");
    expect(rows).toEqual([{ account_id: "acc", service_id: "svc", digest: `sha256:${"a".repeat(64)}` }]);
  } finally {
    await pool.end();
    await Promise.all([database.drop(), rm(before, { recursive: true })]);
  }
});
