import { expect, test } from "vitest";
import { findStart, readBuilderImage, readBuiltApp } from "./builder-image.ts";

const METADATA = "io.buildpacks.builder.metadata";
const USER = { CNB_USER_ID: "1002", CNB_GROUP_ID: "1000" };

const labelsOf = (metadata: object) => ({ [METADATA]: JSON.stringify(metadata) });
const lifecycle = (...supported: string[]) => ({ apis: { platform: { supported } } });

test("a builder image says its run image, its user, its buildpacks and the newest interface that both know", () => {
  const labels = {
    ...labelsOf({
      lifecycle: lifecycle("0.3", "0.12", "0.13"),
      stack: { runImage: { image: "docker.io/example/run:1" } },
      buildpacks: [{ id: "all/of-them" }],
    }),
    "io.buildpacks.buildpack.order": JSON.stringify([
      { group: [{ id: "example/php" }] },
      { group: [{ id: "example/ruby" }, { id: "example/php", optional: true }] },
    ]),
  };
  expect(readBuilderImage(labels, USER)).toEqual({
    platformApi: "0.13",
    runImage: "docker.io/example/run:1",
    user: "1002:1000",
    buildpacks: ["example/php", "example/ruby"],
  });
  const newer = {
    lifecycle: lifecycle("0.14"),
    images: [{ image: "example/run:2" }],
    buildpacks: [{ id: "a" }, {}],
  };
  expect(readBuilderImage(labelsOf(newer), USER)).toMatchObject({
    runImage: "example/run:2",
    buildpacks: ["a"],
  });
});

test("an image that is no builder, or one that builds cannot use, says why", () => {
  const problemOf = (labels: Record<string, string>, env: Record<string, string> = USER) =>
    (readBuilderImage(labels, env) as { problem: string }).problem;
  expect(problemOf({})).toContain(METADATA);
  expect(problemOf({ [METADATA]: "[" })).toContain(METADATA);
  expect(problemOf(labelsOf({ lifecycle: lifecycle("0.4", "0.11") }))).toContain("0.4, 0.11, not for 0.12");
  expect(problemOf(labelsOf({ lifecycle: lifecycle("0.12") }), {})).toContain("CNB_USER_ID");
  expect(
    problemOf(labelsOf({ lifecycle: lifecycle("0.12") }), { CNB_USER_ID: "0", CNB_GROUP_ID: "0" }),
  ).toContain("root");
});

test("an app starts by its configured command, else by the process of its type, else a web service by the default", () => {
  const app = readBuiltApp({
    "io.buildpacks.build.metadata": JSON.stringify({
      buildpacks: [{ id: "example/php", version: "1.2.3" }, { id: "example/procfile" }],
      processes: [
        { type: "web", command: ["php-fpm"], args: ["-F"] },
        { type: "task", command: "bin/task" },
      ],
    }),
  });
  expect(app.buildpacks).toEqual(["example/php@1.2.3", "example/procfile"]);
  const entrypoint = ["/cnb/process/task"];
  const start = (type: string, command?: string) => findStart(app, { type, command, entrypoint });
  expect(start("web")).toEqual({ entrypoint: ["/cnb/process/web"], args: [], command: "php-fpm -F" });
  expect(start("worker")).toBeUndefined();
  expect(start("worker", "bin/x && y")?.args).toEqual(["bin/x && y"]);
  const onlyTask = { ...app, processes: new Map([["task", "bin/task"]]) };
  expect(findStart(onlyTask, { type: "web", entrypoint })).toMatchObject({ command: "bin/task" });
  expect(findStart(onlyTask, { type: "web", entrypoint: ["/cnb/lifecycle/launcher"] })).toBeUndefined();
});
