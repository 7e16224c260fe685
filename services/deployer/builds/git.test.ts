import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type GitServer, startGitServer } from "../../../test/support/servers/git-server.ts";
import { newId } from "../../kit/ids.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { actAs, archiveOf, exampleApp, startDeployer, type TestDeployer, visit } from "../testing/testing.ts";

let berth: TestDeployer;
let server: GitServer;
beforeAll(async () => {
  [berth, server] = await Promise.all([startDeployer(), startGitServer()]);
});
afterAll(async () => {
  await berth?.stop();
  await server?.close();
});

type Git = { repository: string; branch: string; contextDir?: string; tokenVariable?: string };

/** An account with a web service that is built from git. */
async function gitService(git: Git, more: object = {}) {
  const acting = actAs(berth.port, newId("acc"));
  const environment = await acting.environment();
  const made = await acting.catalog.createService({
    ...environment,
    name: "web",
    type: "web",
    source: { git },
    ...more,
  });
  return { ...acting, environment, made, id: made.id, path: environment.at("web") };
}

/** A repository of its own with the example node app, and more files. */
async function repository(files: Record<string, string> = {}) {
  const name = newId("x");
  const commit = server.create(name, { ...(await exampleApp("static")), ...files });
  return { name, commit, url: server.url(name) };
}

test("a deploy without an image builds the branch, and a redeploy sees the new commit", async () => {
  const { name, commit, url } = await repository({ "index.html": "<h1>first</h1>" });
  const { deployments, made, path, until, untilService } = await gitService({
    repository: url,
    branch: "main",
  });
  expect(made.source).toMatchObject({ git: { repository: url, branch: "main" } });
  const accepted = await deployments.deploy(path);
  expect(accepted).toMatchObject({ version: 1, status: "queued", branch: "main" });
  expect([accepted.commit, accepted.image, accepted.archiveRef]).toEqual([undefined, undefined, undefined]);
  expect(accepted.buildId).toBeDefined();
  expect(await until(path, 1, "applied")).toMatchObject({ branch: "main", commit });
  const { url: home } = await untilService(path, "running");
  expect((await visit(home!)).text).toContain("first");
  const { logs } = await deployments.getBuildLogs({ ...path, version: 1 });
  expect(logs).toContain(commit);

  const next = server.commit(name, { "index.html": "<h1>second</h1>" });
  await deployments.deploy(path);
  expect(await until(path, 2, "applied")).toMatchObject({ commit: next });
  await eventually("the new commit is served", async () => (await visit(home!)).text.includes("second"));
  const { data } = await deployments.listDeployments(path);
  expect(data.map((one) => one.commit)).toEqual([next, commit]);
});

test("a change of the source waits for the next deploy, which builds the other branch and folder", async () => {
  const { name, url } = await repository();
  const other = server.commit(name, { "site/index.html": "<h1>from the folder</h1>" }, "next");
  const { catalog, deployments, path, until, untilService } = await gitService({
    repository: url,
    branch: "main",
  });
  await deployments.deploy(path);
  await until(path, 1, "applied");
  const git = { repository: url, branch: "next", contextDir: "./site/" };
  const changed = await catalog.updateService({ ...path, source: { git } });
  expect(changed).toMatchObject({ pendingChanges: true, source: { git: { contextDir: "site" } } });
  await deployments.deploy(path);
  expect(await until(path, 2, "applied")).toMatchObject({ branch: "next", commit: other });
  const { url: home } = await untilService(path, "running");
  await eventually("it is served", async () => (await visit(home!)).text.includes("from the folder"));
});

test("an image or an archive can still be deployed to a service with a git source", async () => {
  const { url } = await repository();
  const { deployments, deployArchive, path, until } = await gitService({ repository: url, branch: "main" });
  const image = await deployments.deploy({ ...path, image: "registry.example.com/a:1" });
  expect([image.branch, image.buildId]).toEqual([undefined, undefined]);
  const archive = await deployArchive(path, await archiveOf({ "index.html": "<h1>archive</h1>" }));
  expect([archive.branch, archive.commit]).toEqual([undefined, undefined]);
  expect((await until(path, 2, "applied")).branch).toBeUndefined();
});

test("a staged service with a git source is built when its environment is applied", async () => {
  const { url, commit } = await repository();
  const git = { repository: url, branch: "main" };
  const { catalog, environment, path, until } = await gitService(git, { staged: true });
  await catalog.applyEnvironment(environment);
  expect(await until(path, 1, "applied")).toMatchObject({ branch: "main", commit });
});

test("a private repository opens with the sensitive variable that the source names, which nobody reads", async () => {
  const { name, url, commit } = await repository();
  const token = `token-${newId("x")}`;
  server.protect(name, token);
  const git = { repository: url, branch: "main", tokenVariable: "GIT_TOKEN" };
  const { id, catalog, deployments, path, until } = await gitService(git);
  const failed = async (version: number) => {
    await deployments.deploy(path);
    return (await until(path, version, "failed")).errors;
  };
  expect(await failed(1)).toMatchObject([{ stage: "source", code: "git_token_missing" }]);
  berth.variables.set(id, [{ name: "GIT_TOKEN", value: token }]);
  expect(await failed(2)).toMatchObject([{ stage: "source", code: "git_token_not_sensitive" }]);
  berth.variables.set(id, [{ name: "GIT_TOKEN", value: `wrong-${token}`, sensitive: true }]);
  expect(await failed(3)).toMatchObject([{ stage: "source", code: "git_authentication_failed" }]);

  berth.variables.set(id, [{ name: "GIT_TOKEN", value: token, sensitive: true }]);
  await deployments.deploy(path);
  expect(await until(path, 4, "applied")).toMatchObject({ commit });
  expect((await catalog.getService(path)).source).toMatchObject({ git: { tokenVariable: "GIT_TOKEN" } });
  const rows = await berth.pool.query(
    `select from deployments d where d.service_id = $1 and d::text like '%' || $2 || '%'
     union all select from build_logs l join deployments d on d.id = l.deployment_id
     where d.service_id = $1 and l.text like '%' || $2 || '%'`,
    [id, token],
  );
  expect(rows.rowCount).toBe(0);
  const found = () => execFileSync("grep", ["-rl", token, join(berth.dataDir, "artifacts")]);
  expect(found).toThrow(expect.objectContaining({ status: 1 }));
});

test("what is wrong with a git source is said at stage source, and the commit of a failed build is kept", async () => {
  const { url, name } = await repository();
  const { catalog, deployments, path, until } = await gitService({ repository: url, branch: "develop" });
  await deployments.deploy(path);
  const noBranch = await until(path, 1, "failed");
  expect(noBranch.errors).toMatchObject([{ stage: "source", code: "git_branch_not_found" }]);
  expect([noBranch.branch, noBranch.commit]).toEqual(["develop", undefined]);

  const nowhere = { repository: server.url("nowhere"), branch: "main" };
  await catalog.updateService({ ...path, source: { git: nowhere } });
  await deployments.deploy(path);
  const noRepository = await until(path, 2, "failed");
  expect(noRepository.errors).toMatchObject([{ stage: "source", code: "git_repository_not_found" }]);

  const pkg = JSON.stringify({ scripts: { build: "exit 3", start: "node ." } });
  const broken = server.commit(name, { "package.json": pkg });
  await catalog.updateService({ ...path, source: { git: { repository: url, branch: "main" } } });
  await deployments.deploy(path);
  const failed = await until(path, 3, "failed");
  expect(failed).toMatchObject({ commit: broken, errors: [{ stage: "build", code: "compile_failed" }] });
});

test("a source that git must not be given is refused when it is set, with the member that is wrong", async () => {
  const good = { repository: "https://git.example.com/shop/web.git", branch: "main" };
  const { catalog, environment, path } = await gitService(good);
  const bad: [string, Partial<Git>][] = [
    ["repository", { repository: "git@github.com:shop/web.git" }],
    ["repository", { repository: "ssh://git@github.com/shop/web" }],
    ["repository", { repository: "file:///etc" }],
    ["repository", { repository: "/srv/git/web" }],
    ["repository", { repository: "--upload-pack=touch /tmp/x" }],
    ["repository", { repository: "ext::sh -c touch% /tmp/x" }],
    ["repository", { repository: "https://user:password@git.example.com/web" }],
    ["repository", { repository: "https://token@git.example.com/web" }],
    ["repository", { repository: "https://git.example.com/" }],
    ["repository", { repository: "https://git.example.com/web%0aname" }],
    ["repository", { repository: "https://git.example.com/web name" }],
    ["repository", { repository: "https:///web" }],
    ["repository", { repository: "https://git.example.com/web?x=1" }],
    ["branch", { branch: "--upload-pack=x" }],
    ["branch", { branch: "a..b" }],
    ["branch", { branch: "a b" }],
    ["branch", { branch: "main:refs/heads/x" }],
    ["branch", { branch: "x.lock" }],
    ["branch", { branch: "/x" }],
    ["contextDir", { contextDir: "/etc" }],
    ["contextDir", { contextDir: "web/../../x" }],
    ["tokenVariable", { tokenVariable: "NOT A NAME" }],
    ["repository", { repository: "http://git.example.com/web", tokenVariable: "GIT_TOKEN" }],
  ];
  for (const [member, change] of bad) {
    const source = { git: { ...good, ...change } };
    const said = await refusal(catalog.updateService({ ...path, source }));
    expect([change, said.status, said.reasons]).toEqual([change, 422, ["invalid_source"]]);
    expect([change, said.paths]).toEqual([change, [`source.git.${member}`]]);
  }
  const source = { git: { ...good, repository: "ssh://git@github.com/shop/web" } };
  expect(await refused(catalog.createService({ ...environment, name: "other", type: "web", source }))).toBe(
    "422 validation_failed invalid_source",
  );
  const both = { git: good, image: "registry.example.com/a:1" };
  expect(await refused(catalog.updateService({ ...path, source: both }))).toContain("invalid_source");
  const plain = { repository: "http://git.lan:3000/shop/web", branch: "feature/ü-1", contextDir: "apps/web" };
  const { source: stored } = await catalog.updateService({ ...path, source: { git: plain } });
  expect(stored).toMatchObject({ git: plain });
});

test("what builds of a service kept is removed with the service", async (context) => {
  const { id, catalog, deployArchive, path, until } = await gitService({
    repository: server.url("x"),
    branch: "main",
  });
  await deployArchive(
    path,
    await archiveOf({ "main.py": "import time; time.sleep(1000)", "requirements.txt": "# none\n" }),
  );
  const [error] = (await until(path, 1, "applied", "failed")).errors;
  if (error?.code === "toolchain_missing") return context.skip(error.message);
  expect(existsSync(join(berth.dataDir, "artifacts-cache", id))).toBe(true);
  await catalog.deleteService({ ...path, confirmImpact: true });
  await eventually("the service is gone", () =>
    refused(catalog.getService(path)).then(
      (said) => said === "404 not_found",
      () => false,
    ),
  );
  expect(existsSync(join(berth.dataDir, "artifacts-cache", id))).toBe(false);
});
