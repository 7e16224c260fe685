import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readImageSources } from "./platform-images.ts";

const root = join(import.meta.dirname, "../../..");

/** The paths that a Dockerfile copies from the repository; the stage that takes the whole of it keeps manifests only. */
function copiedBy(dockerfile: string): string[] {
  const lines = readFileSync(join(root, "deploy/images", dockerfile), "utf8").split("\n");
  return lines
    .filter((line) => line.startsWith("COPY ") && !line.includes("--from="))
    .flatMap((line) => line.split(" ").slice(1, -1))
    .filter((path) => path !== ".");
}

test("images are built anew when anything that they copy has changed", async () => {
  const sources = await readImageSources();
  const copied = ["Dockerfile", "builder.Dockerfile"].flatMap(copiedBy);
  expect(copied).toContain("services");
  const missed = copied.filter((path) => !sources.some((source) => `${path}/`.startsWith(`${source}/`)));
  expect(missed).toEqual([]);
});
