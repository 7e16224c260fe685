import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, inject, test } from "vitest";
import { never } from "../../../../../test/contracts/ports/builder/harness.ts";
import { BuildFailure } from "../../build-failure.ts";
import type { Builder, BuildRequest } from "../../port.ts";
import type { ClusterHarness } from "./testing.ts";
import { file, onCluster } from "./testing-builds.ts";

describe("buildpacks on a cluster", () => {
  const tools = onCluster();
  const { requestFor } = tools;
  const image = inject("clusterImages").buildpacks!;
  let cluster: ClusterHarness;
  let builder: Builder;
  beforeAll(() => {
    cluster = tools.cluster();
    const variables = { ...cluster.options.variables, OPERATORS_OWN: "a value of the operator" };
    builder = cluster.withOptions({ buildpacks: { builder: image }, variables });
  });

  const failureOf = async (request: BuildRequest, by = builder) => {
    const failure = (await by.build(request, never).catch((error) => error)) as BuildFailure;
    expect(failure).toBeInstanceOf(BuildFailure);
    expect(await cluster.remains(request.buildId)).toEqual([]);
    return failure;
  };

  test("what nothing else builds is built by them; the result says which took part, also when its Job is gone", async () => {
    const request = await requestFor([file("greeting.txt", "hello")]);
    const result = await builder.build(request, never);
    expect(result).toEqual({
      runtime: "buildpacks",
      artifact: expect.stringMatching(/@sha256:[0-9a-f]{64}$/),
      buildpacks: ["berth/greeting@1.0.0"],
      command: "node /layers/berth_greeting/server/serve.mjs",
    });
    expect(request.lines).toContain("Built by the buildpacks berth/greeting@1.0.0.");
    expect(request.stages.at(-1)).toBe("Pushing image");
    expect((await cluster.ask(result, "/", {})).body).toBe("hello by the buildpack plain");
    expect(await builder.build(request, never)).toEqual(result);
  });

  test("they run as their own user, see the operator's variables, and no credentials", async () => {
    const registry = { ...cluster.options.registry, authFile: await credentials() };
    const variables = { ...cluster.options.variables, OPERATORS_OWN: "a value of the operator" };
    const by = cluster.withOptions({ buildpacks: { builder: image }, registry, variables });
    const request = await requestFor([file("greeting.txt", "hello")], { serviceId: "svc_seen" });
    const result = await by.build(request, never);
    const lines = request.lines.join("\n");
    expect(lines).toContain("user 1002, the operator's value: a value of the operator");
    expect(lines).toContain("cat: /proc/1/environ: Permission denied");
    expect(lines).not.toMatch(/BERTH_BUILD=|auth\.json|CNB_REGISTRY_AUTH|X-Amz-Signature/);
    expect(JSON.stringify((await cluster.blobsOf(refOf(result.artifact))).config)).not.toContain(
      "OPERATORS_OWN",
    );
  });

  test("what they cache is there for the service's next build, until its caches are removed", async () => {
    const service = { serviceId: "svc_cached" };
    const build = async () => {
      const request = await requestFor([file("greeting.txt", "hello")], service);
      await builder.build(request, never);
      return request.lines.join("\n");
    };
    expect(await build()).toContain("made the server");
    expect(await build()).toContain("kept the server of an earlier build");
    await builder.removeCaches(service.serviceId);
    expect(await build()).toContain("made the server");
  });

  test("a worker starts its own process, and a configured command runs in their environment", async () => {
    const worker = await requestFor([file("greeting.txt", "hello")], { type: "worker" });
    expect((await cluster.ask(await builder.build(worker, never), "/", {})).body).toBe(
      "hello by the buildpack worker",
    );
    const command = "node /layers/berth_greeting/server/serve.mjs $GREETED_BY";
    const configured = await requestFor([file("greeting.txt", "hello")], { command, builder: "buildpacks" });
    const result = await builder.build(configured, never);
    expect(result.command).toBe(command);
    expect((await cluster.ask(result, "/", {})).body).toBe("hello by the buildpack by");
  });

  test("a source that none recognises, one that a buildpack refuses, and an image that is no builder say so", async () => {
    const none = await failureOf(await requestFor([file("app.rb", "puts 1")]));
    expect([none.stage, none.code]).toEqual(["detect", "runtime_not_detected"]);
    expect(none.message).toContain("Tried: berth/greeting");
    const broken = [file("greeting.txt", "hello"), file("broken.txt", "")];
    expect(await failureOf(await requestFor(broken))).toMatchObject({
      stage: "build",
      code: "compile_failed",
    });
    const other = cluster.withOptions({ buildpacks: { builder: tools.node } });
    const refused = await failureOf(await requestFor([file("greeting.txt", "hello")]), other);
    expect(refused.code).toBe("builder_unavailable");
    const off = await failureOf(
      await requestFor([file("greeting.txt", "")], { builder: "buildpacks" }),
      cluster.builder,
    );
    expect(off.code).toBe("buildpacks_not_enabled");
  });
});

const refOf = (artifact: string) => artifact.replace(/^image:/, "");

/** Returns the path of a docker configuration with a login that the registry does not ask for. */
async function credentials(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "auth-"));
  const auth = Buffer.from("builder:the-password-of-the-registry").toString("base64");
  await writeFile(join(folder, "auth.json"), JSON.stringify({ auths: { "registry.example.com": { auth } } }));
  return join(folder, "auth.json");
}
