import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadYaml } from "@kubernetes/client-node";
import { afterAll, expect, test } from "vitest";
import { ciValues, helm, helmProgram } from "../../../test/contracts/chart/render.ts";
import { readSource } from "../source.ts";
import { makeChart, withImages } from "./chart.ts";

const root = join(import.meta.dirname, "../../..");
const digests = { berth: `sha256:${"a".repeat(64)}`, "berth-builder": `sha256:${"b".repeat(64)}` };
const values = readFileSync(join(root, "helm/berth/values.yaml"), "utf8");
const out = mkdtempSync(join(tmpdir(), "berth-release-chart-"));
afterAll(() => rmSync(out, { recursive: true }));

type Image = { repository: string; tag: string; digest: string; pullPolicy: string };
type Values = { image: Image; builds: { image: Image } };

test("the values of a release name its images by digest, and are otherwise the same", () => {
  const released = loadYaml<Values>(withImages(values, "registry.example.com/berth", digests));
  const wanted = loadYaml<Values>(values);
  const named = (name: "berth" | "berth-builder") => ({
    repository: `registry.example.com/berth/${name}`,
    digest: digests[name],
  });
  Object.assign(wanted.image, named("berth"));
  Object.assign(wanted.builds.image, named("berth-builder"));
  expect(released).toEqual(wanted);
});

test("values whose images a release cannot find are refused", () => {
  expect(() => withImages(values.replace("\nimage:", "\nimages:"), "r", digests)).toThrow("exactly once");
  expect(() => withImages(`${values}${values}`, "r", digests)).toThrow("exactly once");
});

test("the packed chart is the same each time", async () => {
  const source = await readSource(root);
  const pack = async (name: string) =>
    readFileSync(join(out, name, await makeChart(source, "ghcr.io/you", digests, join(out, name))));
  expect((await pack("one")).equals(await pack("other"))).toBe(true);
  const listed = execFileSync("tar", ["tzf", join(out, "one/charts", `berth-${source.version}.tgz`)], {
    encoding: "utf8",
  });
  expect(listed).toContain("berth/templates/processes.yaml\n");
  expect(listed).not.toContain("berth/ci/");
});

if (!helmProgram) console.log("The chart of a release is not rendered: there is no helm.");
test.skipIf(!helmProgram)(
  "helm renders it, and every pod of the platform has the image of the release",
  async () => {
    const source = await readSource(root);
    const file = join(out, await makeChart(source, "ghcr.io/you", digests, out));
    expect((await helm("show", "chart", file)).split("\n")).toContain(`version: ${source.version}`);
    // An example that has its images from elsewhere, which the release knows itself.
    const { image: _, ...given } = loadYaml<Partial<Values>>(readFileSync(ciValues("external"), "utf8"));
    delete (given.builds as Partial<Values["builds"]>).image;
    const settings = join(out, "values.json");
    writeFileSync(settings, JSON.stringify(given));
    const api = ["--api-versions", "gateway.networking.k8s.io/v1", "--kube-version", "1.36.0"];
    const rendered = await helm("template", "berth", file, ...api, "-f", settings);
    const images = [...rendered.matchAll(/^ +image: "?([^"\n]+)"?$/gm)].map(([, image]) => image);
    expect(new Set(images)).toEqual(new Set([`ghcr.io/you/berth@${digests.berth}`]));
    expect(rendered).toContain(`ghcr.io/you/berth-builder@${digests["berth-builder"]}`);
  },
);
