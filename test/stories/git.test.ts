import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { type Deployment, open, settled } from "../support/apps.ts";
import { exampleFiles } from "../support/archives.ts";
import { refusal } from "../support/door.ts";
import { type GitServer, startGitServer } from "../support/servers/git-server.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;
let server: GitServer;

beforeAll(async () => {
  [world, server] = await Promise.all([startWorld(), startGitServer()]);
});

afterAll(async () => {
  await world?.stop();
  await server?.close();
});

type Service = { url: string; source: object; pendingChanges: boolean };
type GitDeployment = Deployment & { branch?: string; commit?: string };

test("a private repository is deployed from its branch, redeployed with its next commit, and its token stays secret", async () => {
  const token = "a-token-that-nobody-may-see";
  const first = server.create("shop", exampleFiles("node"));
  server.protect("shop", token);
  const { E, S: service } = await world.environment();
  const S = service("web");
  const git = { repository: server.url("shop"), branch: "main" };
  const made = await world.must<Service>("POST", `${E}/services`, {
    name: "web",
    type: "web",
    source: { git },
  });
  expect(made.source).toEqual({ git });

  const closed = await world.must<GitDeployment>("POST", `${S}/deploy`, {});
  expect(closed).toMatchObject({ version: 1, status: "queued", branch: "main" });
  expect(closed).not.toHaveProperty("commit");
  const refused = await settled(world, S, 1);
  expect(refused).toMatchObject({
    status: "failed",
    errors: [{ stage: "source", code: "git_authentication_failed" }],
  });

  await world.must("POST", `${S}/variables`, { name: "GIT_TOKEN", value: token, sensitive: true });
  const source = { git: { ...git, tokenVariable: "GIT_TOKEN" } };
  expect((await world.must<Service>("PATCH", S, { source })).source).toEqual(source);
  await world.must("POST", `${S}/deploy`, {});
  expect(await settled(world, S, 2)).toMatchObject({ status: "applied", branch: "main", commit: first });
  const { url } = await world.must<Service>("GET", S);
  expect((await open(url)).status).toBe(200);

  const second = server.commit("shop", { "server.js": answering("the second commit") });
  await world.must("POST", `${S}/deploy`, {});
  expect(await settled(world, S, 3)).toMatchObject({ status: "applied", commit: second });
  await eventually("the second commit answers", async () => (await open(url)).body === "the second commit");

  const shown = await Promise.all(
    [S, `${S}/deployments`, ...[1, 2, 3].map((version) => `${S}/deployments/${version}/build-logs`)].map(
      (path) => world.must("GET", path),
    ),
  );
  expect(JSON.stringify(shown)).toContain(second);
  expect(JSON.stringify(shown)).not.toContain(token);
  expect(await world.output()).not.toContain(token);
});

test("a git source that cannot be is refused when it is set, by the member that is wrong", async () => {
  const { E } = await world.environment();
  const answer = await world.call("POST", `${E}/services`, {
    name: "web",
    type: "web",
    source: { git: { repository: "git@github.com:shop/web.git", branch: "main" } },
  });
  expect(refusal(answer)).toBe("422 invalid_source");
  expect(answer.body.error?.details[0]).toMatchObject({ path: "source.git.repository" });
  expect(answer.body.error?.message).toContain("https://");
});

function answering(text: string): string {
  return `require("node:http").createServer((_, res) => res.end(${JSON.stringify(text)})).listen(process.env.PORT);`;
}
