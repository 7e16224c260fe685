import { describe, expect, test } from "vitest";
import type { SourceTree } from "../../detect/build-plan.ts";
import { detectRuntime } from "../../detect/detect.ts";
import { generateDockerfiles, withArguments } from "./dockerfile.ts";

const baseImages = { node: "r/node:1", python: "r/python:1", go: "r/go:1", static: "r/static:1" };

function treeOf(files: Record<string, string>): SourceTree {
  return { exists: (path) => path in files, read: (path) => files[path], folders: () => [], files: () => [] };
}

function generated(files: Record<string, unknown>, wanted: { command?: string } = {}, names = ["A"]) {
  const texts = Object.entries(files).map(([name, content]) => [
    name,
    typeof content === "string" ? content : JSON.stringify(content),
  ]);
  const tree = treeOf(Object.fromEntries(texts));
  const plan = detectRuntime(tree, { type: "web", containers: true, hasTool: () => true, ...wanted });
  return generateDockerfiles(plan, tree, { baseImages, names, own: names.slice(0, 1), port: 8080 });
}

const locked = {
  "package.json": { scripts: { start: "node main.js", build: "tsc" }, devDependencies: { typescript: "*" } },
  "package-lock.json": { packages: { "": {}, "node_modules/typescript": { version: "5.0.0" } } },
};

describe("a generated Dockerfile", () => {
  test("installs what a lock file names before the source comes, so that it can be taken over", () => {
    const { dependencies, app, baseImages: images, ignored } = generated(locked);
    expect(images).toEqual(["r/node:1"]);
    expect(dependencies?.dockerfile.split("\n")).toEqual([
      "FROM r/node:1",
      "ARG A",
      "ENV HOME=/tmp",
      "USER 10001:10001",
      "WORKDIR /srv/app",
      "COPY --chown=10001:10001 app/package-lock.json app/package.json ./",
      "RUN npm ci --include=dev --no-audit --no-fund --no-progress",
      "",
    ]);
    const lines = app("r/installed:1").split("\n");
    expect(lines.slice(0, 5)).toEqual([
      "FROM r/installed:1",
      "ARG A",
      expect.stringMatching(/^ENV PATH=\/srv\/app\/node_modules\/\.bin:/),
      "COPY --chown=10001:10001 app/ ./",
      "RUN npm run build",
    ]);
    expect(lines).toContain("ENV NODE_ENV=production");
    expect(lines).toContain('CMD ["/bin/sh","-c","exec node main.js"]');
    expect(ignored).toEqual(["app/node_modules"]);
  });

  test("stored dependencies are the same whatever variables a site has", () => {
    const installed = (names: string[]) => generated(locked, {}, names).dependencies?.dockerfile;
    expect(installed(["A", "VITE_B"])).toBe(installed(["A"]));
    expect(generated(locked, {}, ["A", "VITE_B"]).app()).toContain("ARG A\nARG VITE_B\n");
  });

  test("keeps no variable of the build, and runs as a user that is not root", () => {
    for (const files of [
      locked,
      { "main.py": "" },
      { "index.html": "" },
      { Procfile: "web: ./run" },
      { "go.mod": "module x" },
    ]) {
      const text = generated(files).app("r/installed:1");
      expect(text).not.toMatch(/^ENV A\b/m);
      const last = text.slice(text.lastIndexOf("FROM "));
      if (!last.startsWith("FROM r/installed")) expect(last).toContain("USER 10001:10001");
    }
  });

  test("compiles Go in one image and runs it in another", () => {
    const { app, baseImages: images, steps } = generated({ "go.mod": "module x" });
    expect(images).toEqual(["r/go:1", "r/static:1"]);
    expect(app()).toContain("RUN go build -buildvcs=false -o ../bin/app .\nFROM r/static:1");
    expect(app()).toContain("COPY --from=compiled /srv/bin /srv/bin");
    expect(app()).toContain('CMD ["/bin/sh","-c","exec ../bin/app"]');
    expect(steps.get("RUN go build -buildvcs=false -o ../bin/app .")?.failure).toBe("compile_failed");
  });

  test("makes an environment for Python, and takes its programs first", () => {
    const { dependencies, app } = generated({ "main.py": "", "requirements.txt": "flask==3.0.0\n" });
    expect(dependencies?.dockerfile).toContain("RUN python3 -m venv --clear .venv\n");
    expect(dependencies?.dockerfile).toContain(
      "RUN .venv/bin/python -m pip install --no-input --progress-bar off -r",
    );
    expect(app("x")).toMatch(/^ENV PATH=\/srv\/app\/\.venv\/bin:\$\{PATH:-/m);
  });

  test("serves a static site to other machines", () => {
    const { app } = generated({ "index.html": "" });
    expect(app()).toContain("COPY static-server.mts /srv/");
    expect(app()).toContain('CMD ["/bin/sh","-c","exec node ../static-server.mts . --address 0.0.0.0"]');
  });

  test("starts with the service's command where nothing else is there", () => {
    const text = generated({ "run.sh": "" }, { command: `sh run.sh "a b"` }).app();
    expect(text).toContain('CMD ["/bin/sh","-c","exec sh run.sh \\"a b\\""]');
  });
});

describe("a Dockerfile of the source", () => {
  test("comes before a Procfile and the files of a language", () => {
    const tree = treeOf({ Dockerfile: "FROM x", Procfile: "web: y", "package.json": "{}" });
    const plan = detectRuntime(tree, { type: "web", containers: true, hasTool: () => true });
    expect(plan).toMatchObject({ runtime: "dockerfile", dockerfile: "Dockerfile" });
    const other = {
      type: "web",
      containers: true,
      dockerfile: "ops/Dockerfile",
      hasTool: () => true,
    } as const;
    expect(() => detectRuntime(tree, other)).toThrow("ops/Dockerfile");
  });

  test("gets the build's arguments in each of its stages, whatever its layout", () => {
    const text = [
      "# escape=\\",
      "ARG VERSION=1",
      "from \\",
      "  # of the stage",
      "  node:24 AS one",
      "RUN echo FROM \\",
      "  FROM nowhere",
      "",
      "FROM one",
      'CMD ["x"]',
    ].join("\n");
    expect(withArguments(text, ["A", "B"]).split("\n")).toEqual([
      ...text.split("\n").slice(0, 5),
      "ARG A",
      "ARG B",
      ...text.split("\n").slice(5, 9),
      "ARG A",
      "ARG B",
      'CMD ["x"]',
    ]);
  });
});
