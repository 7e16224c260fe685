import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Deployment, deployArchive, open, settled } from "../support/apps.ts";
import { archiveOf } from "../support/archives.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world?.stop());

/** Deploys these files to a new web service; returns the settled deployment, the build's log, and a request to the app. */
async function deploy(files: Record<string, string>) {
  const { E, S: service } = await world.environment();
  const S = service("web");
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  const archive = await archiveOf(Object.entries(files).map(([name, content]) => ({ name, content })));
  const { version } = await deployArchive(world, S, archive);
  const deployment: Deployment = await settled(world, S, version);
  const { logs } = await world.must<{ logs: string }>("GET", `${S}/deployments/${version}/build-logs`);
  const { url } = await world.must<{ url?: string }>("GET", S);
  return { deployment, logs, answer: async () => (await open(url!)).body };
}

const server = (text: string) =>
  `require("node:http").createServer((_, res) => res.end(${JSON.stringify(text)})).listen(process.env.PORT);`;

test("a Go app is compiled and served where there is a toolchain, and the lack of one is said", async (context) => {
  const program = `package main
import ("net/http"; "os")
func main() { http.ListenAndServe(":" + os.Getenv("PORT"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("from go")) })) }`;
  const { deployment, answer } = await deploy({ "go.mod": "module app\n\ngo 1.20\n", "main.go": program });
  if (!hasGo()) {
    expect(deployment.errors).toMatchObject([{ stage: "detect", code: "toolchain_missing" }]);
    return context.skip("there is no go on this machine: only the refusal was tested");
  }
  expect(deployment).toMatchObject({ status: "applied", errors: [] });
  expect(await answer()).toBe("from go");
});

test("a Dockerfile fails at detect with the sentence that a cluster is needed", async () => {
  const { deployment, logs } = await deploy({ Dockerfile: "FROM scratch\n", "index.html": "<h1>x</h1>" });
  expect(deployment).toMatchObject({
    status: "failed",
    errors: [{ stage: "detect", code: "dockerfile_needs_cluster" }],
  });
  expect(deployment.errors[0]!.message).toContain("needs a cluster");
  expect(logs).toContain(deployment.errors[0]!.message);
});

test("a Procfile wins over a Dockerfile and over what is detected", async () => {
  const { deployment, answer } = await deploy({
    Procfile: "worker: node worker.js\nweb: node from-procfile.js\n",
    Dockerfile: "FROM scratch\n",
    "package.json": JSON.stringify({ scripts: { start: "node from-start.js" } }),
    "from-procfile.js": server("by the Procfile"),
    "from-start.js": server("by the start script"),
  });
  expect(deployment).toMatchObject({ status: "applied", errors: [] });
  expect(await answer()).toBe("by the Procfile");
});

function hasGo(): boolean {
  try {
    return execFileSync("go", ["version"], { stdio: "pipe" }).length > 0;
  } catch {
    return false;
  }
}
