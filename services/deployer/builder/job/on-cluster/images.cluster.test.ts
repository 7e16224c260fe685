import { beforeAll, describe, expect, test } from "vitest";
import { never } from "../../../../../test/contracts/ports/builder/harness.ts";
import { exampleApp } from "../../../../../test/support/archives.ts";
import type { ClusterHarness } from "./testing.ts";
import { file, onCluster } from "./testing-builds.ts";

describe("what a cluster builds", () => {
  const tools = onCluster();
  const { node, requestFor, failureOf } = tools;
  let cluster: ClusterHarness;
  beforeAll(() => {
    cluster = tools.cluster();
  });

  test("a Dockerfile is built, its steps run, and what it starts answers", async () => {
    const dockerfile = `FROM ${node} AS made
WORKDIR /made
RUN echo "made while building" > made.txt && echo "RUN was here"
FROM ${node}
WORKDIR /app
COPY server.js ./
COPY --from=made /made/made.txt ./
ENV GREETING=from-the-Dockerfile
USER 1000
CMD ["node", "server.js"]
`;
    const request = await requestFor([...exampleApp("node"), file("ops/Dockerfile", dockerfile)], {
      dockerfile: "ops/Dockerfile",
    });
    const result = await cluster.builder.build(request, never);
    expect(result).toEqual({
      runtime: "dockerfile",
      artifact: expect.stringMatching(/@sha256:[0-9a-f]{64}$/),
    });
    expect(request.lines).toContain("RUN was here");
    expect(request.stages.at(-1)).toBe("Pushing image");
    expect((await cluster.ask(result, "/", {})).body).toContain("from-the-Dockerfile");
  });

  test("a Dockerfile that cannot be built says why", async () => {
    const build = async (dockerfile: string) => {
      const request = await requestFor([file("Dockerfile", dockerfile)]);
      const { stage, code, message } = await failureOf(request);
      expect(stage).toBe("build");
      return { code, message, lines: request.lines };
    };
    const step = await build(`FROM ${node}\nRUN echo about to fail >&2; exit 23\n`);
    expect(step).toMatchObject({ code: "compile_failed", lines: expect.arrayContaining(["about to fail"]) });
    expect(step.message).toContain("exit code 23");
    const missing = await build(`FROM ${node}\nCOPY nowhere.txt /\n`);
    expect(missing).toMatchObject({
      code: "dockerfile_failed",
      message: expect.stringContaining("nowhere.txt"),
    });
    const image = node.replace(/[^/]*$/, "no-such-image:1");
    const base = await build(`FROM ${image}\n`);
    expect(base).toMatchObject({ code: "base_image_unavailable", message: expect.stringContaining(image) });
  });

  test("dependencies come from the package registry once, and are taken over while the lock file stays", async () => {
    const lock = {
      name: "app",
      lockfileVersion: 3,
      requires: true,
      packages: {
        "": { name: "app", dependencies: { "is-number": "7.0.0" } },
        "node_modules/is-number": {
          version: "7.0.0",
          integrity:
            "sha512-41Cifkg6e8TylSpdtTpeLVMqvSBEVzTttHvERD741+pnZ8ANv0004MRL43QKPDlK9cGvNp6NZWZUBlbGXYxxng==",
          engines: { node: ">=0.12.0" },
        },
      },
    };
    const main = (text: string) =>
      `const is = require("is-number"); require("node:http").createServer((_, res) => res.end("${text} " + is(7))).listen(process.env.PORT)`;
    const entries = (text: string) => [
      file("package.json", { dependencies: { "is-number": "7.0.0" }, scripts: { start: "node main.js" } }),
      file("package-lock.json", lock),
      file("main.js", main(text)),
    ];
    const service = { serviceId: "svc_locked" };
    const first = await requestFor(entries("one"), service);
    const result = await cluster.builder.build(first, never);
    expect(first.lines.join("\n")).toContain("RUN npm ci");
    expect((await cluster.ask(result, "/", {})).body).toBe("one true");
    const second = await requestFor(entries("two"), service);
    const again = await cluster.builder.build(second, never);
    expect(second.lines.join("\n")).not.toContain("RUN npm ci");
    expect(second.lines.join("\n")).toContain("package-lock.json did not change");
    expect((await cluster.ask(again, "/", {})).body).toBe("two true");
    await cluster.builder.removeCaches(service.serviceId);
    const third = await requestFor(entries("three"), service);
    await cluster.builder.build(third, never);
    expect(third.lines.join("\n")).toContain("RUN npm ci");
  });

  test("a Procfile or the service's command says how to start what is there", async () => {
    const server = (text: string) =>
      file(
        "app.js",
        `require("node:http").createServer((_, res) => res.end("${text}")).listen(process.env.PORT)`,
      );
    const procfile = await requestFor([server("by Procfile"), file("Procfile", "web: node app.js")]);
    const one = await cluster.builder.build(procfile, never);
    expect(one).toMatchObject({ runtime: "procfile", command: "node app.js" });
    expect((await cluster.ask(one, "/", {})).body).toBe("by Procfile");
    const command = await requestFor([server("by command")], { command: "exec node app.js" });
    const other = await cluster.builder.build(command, never);
    expect(other).toMatchObject({ runtime: "command", command: "exec node app.js" });
    expect((await cluster.ask(other, "/", {})).body).toBe("by command");
  });
});
