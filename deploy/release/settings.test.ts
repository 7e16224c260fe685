import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { appSources, nodeVersion, recipes, suite } from "./settings.ts";

// Images are made in two ways: by `npm run images`, on a base of one's own, and by releases, which run nothing of them.

const read = (name: string) => readFileSync(join(import.meta.dirname, "../images", name), "utf8");
/** The last stage of a Dockerfile: what is in the image. */
const last = (dockerfile: string) => dockerfile.split(/^FROM .*$/m).at(-1)!;
const [platform, builder] = [read("Dockerfile"), read("builder.Dockerfile")];
const envOf = (text: string) =>
  Object.fromEntries(
    [...text.matchAll(/^ENV (.*)$/gm)].flatMap(([, pairs]) =>
      pairs!.split(" ").map((pair) => pair.split("=")),
    ),
  ) as Record<string, string>;

test("a released image has the files that the Dockerfile copies", () => {
  const copied = [...last(platform).matchAll(/^COPY ([^-].*) (\S+)$/gm)].flatMap(([, from]) =>
    from!.split(" "),
  );
  expect(copied).toEqual(appSources);
});

test("it has the Debian and the Node that the Dockerfile's base names", () => {
  const [, major, debian] = /^ARG BASE=.*\/node:(\d+)-(\w+)-slim$/m.exec(platform)!;
  expect([nodeVersion.split(".")[0], suite]).toEqual([major, debian]);
});

describe.each(recipes)("$name", ({ name, title, description, packages, env }) => {
  const texts = name === "berth" ? [platform] : [platform, builder];

  test("starts with the same settings", () => {
    // Which modules compile to depends on the processor that did it.
    const { NODE_COMPILE_CACHE, ...wanted } = envOf(texts.map(last).join("\n"));
    expect(NODE_COMPILE_CACHE).toBeDefined();
    expect(env).toMatchObject(wanted);
    expect(Object.keys(env).filter((key) => !(key in wanted))).toEqual(["PATH"]);
    expect(texts.map(last).join("\n")).toMatch(/^USER 1000:1000$/m);
    expect(last(texts.at(-1)!)).toContain(`image.title="${title}"`);
    expect(last(texts.at(-1)!)).toContain(`image.description="${description}"`);
  });

  test("has the Debian packages that the Dockerfile installs", () => {
    const installed = /^ +([a-z0-9 -]+) > \/dev\/null \\$/m.exec(last(texts.at(-1)!))?.[1]?.split(" ") ?? [];
    expect(installed.length > 0).toBe(name === "berth-builder");
    expect(installed.filter((one) => !packages.includes(one))).toEqual([]);
  });
});
