export type Component = {
  type: "library" | "application";
  name: string;
  version: string;
  purl: string;
  licenses?: { license: { name: string } }[];
  hashes?: { alg: "SHA-512"; content: string }[];
};

type Installed = { version?: string; link?: boolean; dev?: boolean; license?: string; integrity?: string };

/** Returns the npm packages of npm's own record of what it installed (`node_modules/.package-lock.json`). */
export function npmPackages(record: string): Component[] {
  const { packages } = JSON.parse(record) as { packages: Record<string, Installed> };
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

/** Returns the Debian packages of dpkg's record of them (`/var/lib/dpkg/status`). */
export function debianPackages(status: string): Component[] {
  const field = (paragraph: string, name: string) =>
    paragraph
      .split("\n")
      .find((line) => line.startsWith(`${name}: `))
      ?.slice(name.length + 2) ?? "";
  return status
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

/** Returns Node.js itself. */
export function nodeComponent(version: string): Component {
  return { type: "application", name: "node", version, purl: `pkg:generic/node@${version}` };
}

/** Returns the bill of materials that is in every image, as a CycloneDX document. */
export function cycloneDx(name: string, version: string, components: Component[]): string {
  const document = {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: { component: { type: "application", name, version } },
    components,
  };
  return `${JSON.stringify(document)}\n`;
}
