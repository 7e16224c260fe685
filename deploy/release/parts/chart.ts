import { createWriteStream } from "node:fs";
import { mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import type { Digests } from "../image/images.ts";
import { committed } from "../image/packages.ts";
import type { Source } from "../source.ts";
import { type Entry, writeTar } from "../tar.ts";

const FOLDER = "helm/berth";
/** What `berth-server` takes from the chart, whose checksum it knows. */
const SERVER = [
  "deploy/server/files",
  "deploy/cluster/templates/seccomp-build.json",
  "deploy/cluster/templates/apparmor-build",
];

/** Packs the chart, whose values name the images in `registry` by digest. Returns the path below `out`. */
export async function makeChart(
  source: Source,
  registry: string,
  digests: Digests,
  out: string,
): Promise<string> {
  const entries = await committed(source.root, [FOLDER]);
  const chart = entries.flatMap((entry): Entry[] => {
    const path = entry.path.slice(FOLDER.length + 1);
    // What .helmignore leaves out.
    if (path.startsWith("ci/")) return [];
    const data = entry.kind === "file" && editOf(path, entry.data, { source, registry, digests });
    return [{ ...entry, path: `berth/${path}`, ...(data && { data }) } as Entry];
  });
  for (const entry of await committed(source.root, SERVER))
    if (entry.kind === "file") chart.push({ ...entry, path: `berth/server/${basename(entry.path)}` });
  const file = `charts/berth-${source.version}.tgz`;
  await mkdir(join(out, "charts"), { recursive: true });
  await pipeline(writeTar(chart, source.date), createGzip({ level: 9 }), createWriteStream(join(out, file)));
  return file;
}

type Given = { source: Source; registry: string; digests: Digests };

function editOf(path: string, data: Buffer, { source: { version }, registry, digests }: Given): Buffer {
  const text = data.toString();
  if (path === "Chart.yaml") return Buffer.from(withVersion(text, version));
  if (path === "values.yaml") return Buffer.from(withImages(text, registry, digests));
  return data;
}

const withVersion = (text: string, version: string) =>
  replaceOnce(
    replaceOnce(text, /^version: .*$/m, `version: ${version}`),
    /^appVersion: .*$/m,
    `appVersion: ${version}`,
  );

/** Returns the values with the images of a release. */
export function withImages(values: string, registry: string, digests: Digests): string {
  const platform = replaceOnce(
    values,
    /^image:\n {2}repository: ""\n {2}tag: ""(.*)\n {2}digest: ""/m,
    `image:\n  repository: ${registry}/berth\n  tag: ""$1\n  digest: ${digests.berth}`,
  );
  const builder = replaceOnce(
    platform,
    /^ {2}image: \{repository: "", tag: "", digest: "", pullPolicy/m,
    `  image: {repository: ${registry}/berth-builder, tag: "", digest: "${digests["berth-builder"]}", pullPolicy`,
  );
  return replaceOnce(
    builder,
    /^# You must set five values: .*$/m,
    "# You must set three values: publicUrl, owner.email, apps.domain. The images are those of this release.",
  );
}

function replaceOnce(text: string, pattern: RegExp, by: string): string {
  if (text.split(pattern).length !== (by.includes("$1") ? 3 : 2))
    throw new Error(`The chart does not have this exactly once: ${pattern.source}`);
  return text.replace(pattern, by);
}
