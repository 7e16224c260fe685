import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../kit/testing/testing.ts";
import { startDeployer, type TestDeployer } from "../testing/testing.ts";
import { echo, echoApp, echoService, environmentAt } from "./testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

test("a change of variables arrives at the running app by itself, once, without a new version", async () => {
  const one = await echoService(berth, {}, [{ name: "GREETING", value: "old" }]);
  const other = await echoService(berth);
  const revision = (seen: Record<string, string>) => Number(seen.PLATFORM_VARIABLES_REVISION);
  const before = await environmentAt(one.url);
  expect(before.GREETING).toBe("old");
  const untouched = await environmentAt(other.url);

  const { accountId, environmentId } = one.environment;
  for (const value of ["newer", "newest"]) {
    berth.variables.set(one.id, [{ name: "GREETING", value }]);
    await berth.variables.changed(accountId, "environment", environmentId);
    await berth.variables.changed(other.accountId, "environment", other.environment.environmentId);
  }
  const after = await eventually("the new value arrives", async () => {
    const seen = await environmentAt(one.url);
    return seen.GREETING === "newest" && seen;
  });
  expect(revision(after)).toBe(revision(before) + 1);
  expect((await one.deployments.listDeployments(one.path)).data).toHaveLength(1);
  expect(await environmentAt(other.url)).toEqual(untouched);
  await one.untilService(one.path, "running");
});

test("variables that keep changing do not keep a release from becoming healthy, and the newest arrive once it is", async () => {
  // Longer than a change of variables waits otherwise.
  const { path, id, accountId, ...acting } = await echoApp(berth, { config: { minReadySeconds: 4 } });
  await acting.until(path, 1, "applied");
  for (const value of ["new", "newer", "newest"]) {
    berth.variables.set(id, [{ name: "GREETING", value }]);
    await berth.variables.changed(accountId, "service", id);
  }
  const isMarked = async () => {
    const { rows } = await berth.pool.query("select dirty_at from services where id = $1", [id]);
    return rows[0].dirty_at !== null;
  };
  await eventually("the service is marked", isMarked);
  await eventually("they are compared", async () => !(await isMarked()));
  const { healthyAt } = await acting.deployments.getDeployment({ ...path, version: 1 });
  expect(healthyAt).toBeDefined();
  const { url } = await acting.catalog.getService(path);
  const seen = await eventually("the newest arrive", async () => {
    const found = await environmentAt(url!);
    return found.GREETING === "newest" && found;
  });
  expect(seen.PLATFORM_VARIABLES_REVISION).toBe("2");
});

test("a change that repairs a release which crashes does not wait for it", async () => {
  const crashing = {
    ...echo,
    "server.js": `if (!process.env.GREETING) throw new Error("no greeting");${echo["server.js"]}`,
  };
  const { path, id, accountId, ...acting } = await echoApp(berth, {}, [], crashing);
  await acting.until(path, 1, "applied");
  berth.variables.set(id, [{ name: "GREETING", value: "there" }]);
  await berth.variables.changed(accountId, "service", id);
  const { url } = await acting.untilService(path, "running");
  expect((await environmentAt(url!)).GREETING).toBe("there");
});

test("with autoApply off a change waits for the next deploy, and is shown as pending", async () => {
  const variables = [{ name: "GREETING", value: "old" }];
  const { accountId, path, url, id, ...acting } = await echoService(
    berth,
    { config: { autoApply: false } },
    variables,
  );
  berth.variables.set(id, [{ name: "GREETING", value: "new" }]);
  await berth.variables.changed(accountId, "service", id);
  await eventually("the change is pending", async () => (await acting.service(path)).pendingChanges);
  expect((await environmentAt(url)).GREETING).toBe("old");
  await acting.deployments.deploy(path);
  await acting.until(path, 2, "applied");
  await eventually("the new value arrives", async () => (await environmentAt(url)).GREETING === "new");
  expect((await acting.service(path)).pendingChanges).toBe(false);
});

test("a variable wins over config.env, and what the platform sets wins over both", async () => {
  const config = { env: { A: "config", B: "config", C: "config" } };
  const { url, id, accountId } = await echoService(berth, { config }, [
    { name: "A", value: "variable" },
    { name: "PLATFORM_VARIABLES_REVISION", value: "99" },
  ]);
  const seen = await environmentAt(url);
  expect(seen).toMatchObject({ A: "variable", B: "config", PLATFORM_VARIABLES_REVISION: "1" });
  expect(seen.DATABASE_URL).toBeUndefined();
  // One that dangles is left out all the same.
  berth.variables.set(id, [{ name: "A", value: "newer" }], [{ name: "C", reason: "service_not_found" }]);
  await berth.variables.changed(accountId, "service", id);
  const later = await eventually("it is applied", async () => {
    const found = await environmentAt(url);
    return found.A === "newer" && found;
  });
  expect([later.B, later.C]).toEqual(["config", undefined]);
  // And comes back with the deletion of that variable, which changes nothing else.
  berth.variables.set(id, [{ name: "A", value: "newer" }]);
  await berth.variables.changed(accountId, "service", id);
  await eventually("it is back", async () => (await environmentAt(url)).C === "config");
});

test("a variable that dangles is left out, with a warning", async () => {
  const { path, id, url, accountId, ...acting } = await echoService(berth);
  berth.variables.set(id, [{ name: "A", value: "1" }], [{ name: "B", reason: "service_not_found" }]);
  await berth.variables.changed(accountId, "service", id);
  const { warnings } = await eventually("the warning is recorded", async () => {
    const found = await acting.deployments.getDeployment({ ...path, version: 1 });
    return found.warnings.length > 0 && found;
  });
  expect(warnings).toMatchObject([{ stage: "resolve", code: "service_not_found" }]);
  expect(warnings[0]!.message).toContain("B");
  await eventually("the rest is applied", async () => (await environmentAt(url)).A === "1");
});
