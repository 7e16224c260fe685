import { expect, test } from "vitest";
import { choiceOfVersions, imageFor, imagesByVersion, versionOf } from "./versions.ts";

const IMAGES = ["reg.test/postgres:18", "postgres:17.6", "postgres:17.7", "postgres:16.10-alpine"];

test("users choose among the versions of the images, and get the newest release of one", () => {
  expect(choiceOfVersions("postgres", IMAGES)).toEqual({ versions: ["18", "17", "16"] });
  expect(imageFor("postgres", "17", IMAGES)).toBe("postgres:17.7");
  expect(imageFor("postgres", "16", IMAGES)).toBe("postgres:16.10-alpine");
  expect(imageFor("postgres", undefined, IMAGES)).toBe("reg.test/postgres:18");
  // An operator may have removed it since it was chosen.
  expect(imageFor("postgres", "15", IMAGES)).toBe("reg.test/postgres:18");
});

test("a version of redis has two numbers, where the tag has as many", () => {
  const images = ["redis:8", "redis:8.2.4", "redis:7.4.1"];
  expect([...imagesByVersion("redis", images).keys()]).toEqual(["8", "8.2", "7.4"]);
});

test("without versions in tags there is no choice", () => {
  for (const image of ["postgres", "postgres:latest", `postgres@sha256:${"a".repeat(64)}`])
    expect(choiceOfVersions("postgres", [image])).toEqual({
      versions: [],
      versionsReason: expect.stringContaining("do not say"),
    });
  expect([versionOf("postgres:18.1-alpine"), versionOf("postgres:latest"), versionOf(undefined)]).toEqual([
    "18.1",
    undefined,
    undefined,
  ]);
});
