import { createHash } from "node:crypto";
import { once } from "node:events";
import { rename } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import {
  archiveOf,
  createWebService,
  FREE_PLAN,
  startDeployer,
  type TestDeployer,
  upload,
} from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer(FREE_PLAN);
});
afterAll(() => berth?.stop());

const webService = (more?: object) => createWebService(berth.port, more);

const someArchive = () => archiveOf({ "index.html": "<h1>hello</h1>" });

test("an upload target is returned, and an archive over the cap is refused at once", async () => {
  const { deployments, path } = await webService();
  const target = await deployments.createUpload({ ...path, sizeBytes: 1_000 });
  expect(target).toMatchObject({ method: "PUT", contentType: "application/gzip", expiresInSeconds: 900 });
  expect(target.uploadUrl.startsWith(berth.env.PUBLIC_ORIGIN!)).toBe(true);
  expect(target.archiveRef).toMatch(/^arc_/);
  const sizeBytes = 250 * 1024 ** 2 + 1;
  expect(await refused(deployments.createUpload({ ...path, sizeBytes }))).toBe(
    "422 validation_failed archive_too_large",
  );
  expect(await refused(deployments.createUpload({ ...path, sizeBytes: -1 }))).toBe(
    "422 validation_failed out_of_range",
  );
});

test("an archive that is not there, not this service's, or forged, is refused", async () => {
  const one = await webService();
  const two = await webService();
  const target = await one.deployments.createUpload(one.path);
  const deploy = (archiveRef: string, of = one) =>
    refused(of.deployments.deployFromArchive({ ...of.path, archiveRef }));
  expect(await deploy(target.archiveRef)).toBe("422 validation_failed archive_not_uploaded");
  const ref = await upload(one.deployments.createUpload(one.path), await someArchive());
  expect(await deploy(ref, two)).toBe("422 validation_failed archive_ref_mismatch");
  expect(await deploy("arc_nonsense")).toBe("422 validation_failed archive_ref_mismatch");
  const forged = ref.slice(0, -1) + (ref.endsWith("A") ? "Q" : "A");
  expect(await deploy(forged)).toBe("422 validation_failed archive_ref_mismatch");
  expect(await deploy("")).toBe("422 validation_failed required");
});

test("an archive that was deployed takes no other bytes: neither by its URL nor under the build", async () => {
  const { deployments, id, path, until } = await webService();
  const target = await deployments.createUpload(path);
  const archiveRef = await upload(Promise.resolve(target), await someArchive());
  const open = berth.variables.hold(); // the build does not begin
  await deployments.deployFromArchive({ ...path, archiveRef });
  const body = new Uint8Array(await archiveOf({ "index.html": "<h1>other</h1>" }));
  const put = await fetch(target.uploadUrl, {
    method: "PUT",
    headers: { "content-type": target.contentType },
    body,
  });
  expect([put.status, await put.json()]).toMatchObject([409, { error: { code: "archive_deployed" } }]);
  // As a store does that cannot refuse it.
  const other = await upload(deployments.createUpload(path), Buffer.from(body));
  const fileOf = (ref: string) =>
    join(berth.dataDir, "store/objects", `archives+${id}+${ref.split("_").slice(0, 2).join("_")}`);
  await rename(fileOf(other), fileOf(archiveRef));
  open();
  expect((await until(path, 1, "failed")).errors).toMatchObject([
    { stage: "source", code: "archive_changed" },
  ]);
});

test("dependencies are reused by the next build, unless the build cache was cleared", async () => {
  const { deployments, path, until } = await webService();
  const tarball = await archiveOf({
    "package/package.json": JSON.stringify({ name: "lib", version: "1.0.0" }),
  });
  const packages = createServer((_, response) => response.end(tarball)).listen(0, "127.0.0.1");
  await once(packages, "listening");
  const start = "node -e 'require(`http`).createServer((_, r) => r.end()).listen(process.env.PORT)'";
  const app = { name: "app", version: "1.0.0", scripts: { start }, dependencies: { lib: "1.0.0" } };
  const lib = {
    version: "1.0.0",
    resolved: `http://127.0.0.1:${(packages.address() as AddressInfo).port}/lib.tgz`,
    integrity: `sha512-${createHash("sha512").update(tarball).digest("base64")}`,
  };
  const lock = {
    name: app.name,
    version: app.version,
    lockfileVersion: 3,
    packages: { "": app, "node_modules/lib": lib },
  };
  const deploy = async (version: number) => {
    const archive = await archiveOf({
      "package.json": JSON.stringify(app),
      "package-lock.json": JSON.stringify(lock),
      version: String(version),
    });
    const archiveRef = await upload(deployments.createUpload(path), archive);
    await deployments.deployFromArchive({ ...path, archiveRef });
    await until(path, version, "applied");
    const { logs } = await deployments.getBuildLogs({ ...path, version });
    return /Reusing the dependencies of an earlier build/.test(logs);
  };
  expect(await deploy(1)).toBe(false);
  expect(await deploy(2)).toBe(true);
  await deployments.clearBuildCache(path);
  expect(await deploy(3)).toBe(false);
  expect(await refused(deployments.clearBuildCache({ ...path, service: "ghost" }))).toBe("404 not_found");
  packages.close();
});
