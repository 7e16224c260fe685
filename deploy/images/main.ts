import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs, promisify } from "node:util";
import { buildah, docker, type Engine } from "./engine.ts";
import { buildImages, imageNames, sbomPath } from "./images.ts";

const help = `npm run images -- [options]: builds the images of the platform and of the builder

  --registry R     the registry, such as ghcr.io/you (default: local names only)
  --tag T          default: the version in package.json
  --base IMAGE     Node 24 on Debian (default: docker.io/library/node:24-bookworm-slim)
  --push           push them
  --insecure       the registry has no TLS, or a self-signed certificate (buildah)
  --engine E       docker or buildah (default: the one that is installed)
  --ca FILE        certificates to trust while packages are installed, behind a company's proxy
  --source URL     address of the source code, for the images' label
  --sbom DIR       also write the software bills of materials to this folder`;

async function run(): Promise<void> {
  const { values } = parseArgs({
    options: {
      registry: { type: "string", default: "" },
      tag: { type: "string" },
      base: { type: "string" },
      push: { type: "boolean", default: false },
      insecure: { type: "boolean", default: false },
      engine: { type: "string" },
      ca: { type: "string" },
      source: { type: "string" },
      sbom: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return console.log(help);
  const manifest = join(import.meta.dirname, "../../package.json");
  const { version } = JSON.parse(await readFile(manifest, "utf8")) as { version: string };
  const engine = await chooseEngine(values.engine, values.insecure);
  const names = imageNames(values.registry, values.tag ?? version);
  await buildImages(engine, { names, base: values.base, ca: values.ca, source: values.source });
  for (const [name, image] of Object.entries(names)) {
    const digest = values.push ? ` ${await engine.push(image)}` : "";
    const sbom = await engine.read(image, sbomPath);
    const parts = (JSON.parse(sbom) as { components: unknown[] }).components.length;
    console.log(`${image}${digest}\n  SBOM (CycloneDX, ${parts} components): ${sbomPath} in the image`);
    if (values.sbom) await writeFile(join(values.sbom, `${name}.cdx.json`), sbom);
  }
}

async function chooseEngine(wanted: string | undefined, insecure: boolean): Promise<Engine> {
  const runs = (name: string) =>
    promisify(execFile)(name, ["version"]).then(
      () => true,
      () => false,
    );
  if (wanted === "docker" || (wanted === undefined && (await runs("docker")))) return docker({ insecure });
  if (wanted === "buildah" || (wanted === undefined && (await runs("buildah")))) return buildah({ insecure });
  throw new Error(
    wanted
      ? `--engine must be docker or buildah, not ${wanted}.`
      : "Neither docker nor buildah works on this machine.",
  );
}

try {
  await run();
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
