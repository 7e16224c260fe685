/**
 * node sbom.ts NAME VERSION FILE: writes an image's software bill of materials, as a CycloneDX document: Node.js, the
 * installed npm packages (from npm's own record of them) and Debian packages.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

type Component = {
  type: "library" | "application";
  name: string;
  version: string;
  purl: string;
  licenses?: { license: { name: string } }[];
  hashes?: { alg: "SHA-512"; content: string }[];
};

type Installed = { version?: string; link?: boolean; dev?: boolean; license?: string; integrity?: string };

/** npm's records of what is installed, and of what the console was built with, parts of which are in its files. */
const npmRecords = ["/app/node_modules/.package-lock.json", "/app/clients/console/packages.json"];
const debianRecord = "/var/lib/dpkg/status";

function npmPackages(record: string): Component[] {
  if (!existsSync(record)) return [];
  const { packages } = JSON.parse(readFileSync(record, "utf8")) as { packages: Record<string, Installed> };
  return Object.entries(packages)
    .filter(([path, { link, dev, version }]) => path.includes("node_modules/") && !link && !dev && version)
    .map(([path, { version, license, integrity }]) => {
      const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
      const digest = integrity?.match(/^sha512-(.+)$/)?.[1];
      return {
        type: "library",
        name,
        version: version!,
        purl: `pkg:npm/${name.replace("@", "%40")}@${version}`,
        ...(license && { licenses: [{ license: { name: license } }] }),
        ...(digest && {
          hashes: [{ alg: "SHA-512", content: Buffer.from(digest, "base64").toString("hex") }],
        }),
      };
    });
}

function debianPackages(): Component[] {
  if (!existsSync(debianRecord)) return [];
  const field = (paragraph: string, name: string) =>
    paragraph
      .split("\n")
      .find((line) => line.startsWith(`${name}: `))
      ?.slice(name.length + 2) ?? "";
  return readFileSync(debianRecord, "utf8")
    .split("\n\n")
    .filter((paragraph) => field(paragraph, "Status").endsWith(" installed"))
    .map((paragraph) => {
      const [name, version] = [field(paragraph, "Package"), field(paragraph, "Version")];
      const arch = field(paragraph, "Architecture");
      return {
        type: "library",
        name,
        version,
        purl: `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${arch}`,
      };
    });
}

const node: Component = {
  type: "application",
  name: "node",
  version: process.versions.node,
  purl: `pkg:generic/node@${process.versions.node}`,
};

const [name = "", version = "", file = ""] = process.argv.slice(2);
const document = {
  bomFormat: "CycloneDX",
  specVersion: "1.5",
  version: 1,
  metadata: { component: { type: "application", name, version } },
  components: [node, ...npmRecords.flatMap(npmPackages), ...debianPackages()],
};
mkdirSync(dirname(file), { recursive: true });
writeFileSync(file, `${JSON.stringify(document)}\n`);
