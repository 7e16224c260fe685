import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { appendFile, readdir, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { pipeline } from "node:stream/promises";
import { run } from "../run.ts";
import type { Source } from "../source.ts";

const SUMS = "SHA256SUMS";

/** Lists the SHA-256 of every file, and packs all of them into one file for machines without internet. */
export async function makeBundle({ version, date }: Source, registry: string, out: string): Promise<string> {
  await writeFile(join(out, "README.md"), readme(version, registry));
  await writeFile(join(out, SUMS), await sumsOf(out));
  const bundle = `berth-${version}-bundle.tar`;
  // Outside of the folder that tar reads; a layer of both images is in it once, as a hard link.
  const unfinished = join(out, "..", `.${process.pid}-${bundle}`);
  const same = [
    "--sort=name",
    `--mtime=@${date.getTime() / 1000}`,
    "--owner=0",
    "--group=0",
    "--numeric-owner",
  ];
  const shape = ["--format=gnu", "--mode=u=rwX,go=rX", `--transform=s,^\\.,berth-${version},`];
  await run("tar", [...same, ...shape, "-cf", unfinished, "-C", out, "."]);
  await run("mv", [unfinished, join(out, bundle)]);
  await appendFile(join(out, SUMS), await lineOf(out, bundle));
  return bundle;
}

/** Returns the lines that `sha256sum --check` reads, of all files below a folder. */
async function sumsOf(folder: string): Promise<string> {
  const found = await readdir(folder, { withFileTypes: true, recursive: true });
  const files = found
    .filter((one) => one.isFile())
    .map((one) => relative(folder, join(one.parentPath, one.name)));
  const lines: string[] = [];
  for (const file of files.filter((name) => name !== SUMS).sort()) lines.push(await lineOf(folder, file));
  return lines.join("");
}

async function lineOf(folder: string, file: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(join(folder, file)), hash);
  return `${hash.digest("hex")}  ${file}\n`;
}

const readme = (version: string, registry: string) => `# Berth ${version}

| here | what it is |
|---|---|
| \`images/berth\`, \`images/berth-builder\` | the images, each an OCI layout with an index of all platforms, tag \`${version}\` |
| \`charts/berth-${version}.tgz\` | the chart, which names the images in ${registry} by digest |
| \`npm/\` | the command \`berth\` and the TypeScript client, which \`npm install FILE\` installs without a registry |
| \`server/berth-server\` | installs this release on one server, with \`--bundle\` and the name of the file that you unpacked |
| \`sbom/\` | what each image contains, as SPDX 2.3 |
| \`${SUMS}\` | \`sha256sum --check ${SUMS}\` compares every file |

Copy the images into your own registry, and tell the chart where they are; their digests stay the same:

    skopeo copy --all oci:images/berth:${version} docker://registry.example.com/berth:${version}
    skopeo copy --all oci:images/berth-builder:${version} docker://registry.example.com/berth-builder:${version}
    helm install berth charts/berth-${version}.tgz --set image.repository=registry.example.com/berth \\
      --set builds.image.repository=registry.example.com/berth-builder …
`;
