import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { debianPackages, nodeComponent, npmPackages } from "../../images/components.ts";
import { spdx } from "./spdx.ts";

const root = join(import.meta.dirname, "../../..");
/** The SPDX project's own tools, which check a document by the specification. */
const TOOLS = "spdx-tools==0.8.5";
const folder = join(root, ".cache", TOOLS.replace("==", "-"));
const validator = findValidator();
const work = mkdtempSync(join(tmpdir(), "berth-spdx-"));
afterAll(() => rmSync(work, { recursive: true }));

/** Returns the program that validates, or undefined, which is printed, where it cannot be installed. */
function findValidator(): string | undefined {
  const program = join(folder, "bin/pyspdxtools");
  if (existsSync(join(folder, "complete"))) return program;
  const run = (file: string, args: string[]) => spawnSync(file, args, { encoding: "utf8", timeout: 240_000 });
  const installed =
    run("python3", ["-m", "venv", "--clear", folder]).status === 0 &&
    run(join(folder, "bin/pip"), ["install", "--quiet", "--disable-pip-version-check", TOOLS]).status === 0;
  if (installed) writeFileSync(join(folder, "complete"), "");
  else
    console.log("Bills of materials are not validated by the SPDX project's tools: pip cannot install them.");
  return installed ? program : undefined;
}

const status = `Package: libc6
Architecture: arm64
Version: 2.36-9+deb12u10
Status: install ok installed

Package: adduser
Architecture: all
Version: 1:3.134
Status: install ok installed

`;
const components = [
  nodeComponent("24.21.0"),
  ...npmPackages(readFileSync(join(root, "node_modules/.package-lock.json"), "utf8")),
  ...debianPackages(status),
];
const document = (more = components) =>
  spdx({
    name: "berth",
    version: "1.2.3",
    arch: "arm64",
    digest: `sha256:${"0".repeat(64)}`,
    created: new Date(1_700_000_000_000),
    components: more,
  });

type Spdx = {
  documentNamespace: string;
  packages: { name: string; licenseDeclared: string; externalRefs?: { referenceLocator: string }[] }[];
};

test("a bill of materials has Node, every npm package and every Debian package once", () => {
  const { packages } = JSON.parse(document([...components, ...components])) as Spdx;
  const purls = packages.flatMap(({ externalRefs = [] }) => externalRefs.map((ref) => ref.referenceLocator));
  expect(purls).toContain("pkg:generic/node@24.21.0");
  expect(purls).toContain("pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=arm64");
  expect(purls).toEqual([...new Set(components.map(({ purl }) => purl))]);
  expect(purls.length).toBeGreaterThan(100);
});

test("a licence that is no SPDX expression is not asserted", () => {
  const named = (name: string) => ({ ...nodeComponent("1"), purl: `pkg:npm/${name}@1`, name });
  const licensed = (license: string) => ({ ...named("x"), licenses: [{ license: { name: license } }] });
  const declared = (license: string) =>
    (JSON.parse(document([licensed(license)])) as Spdx).packages[1]!.licenseDeclared;
  expect(declared("(Apache-2.0 AND BSD-3-Clause)")).toBe("(Apache-2.0 AND BSD-3-Clause)");
  for (const other of ["SEE LICENSE IN LICENSE.txt", "UNLICENSED", "Apache 2"])
    expect(declared(other)).toBe("NOASSERTION");
});

test.skipIf(validator === undefined)("it is valid by the SPDX project's own tools", () => {
  const check = (name: string, text: string) => {
    const file = join(work, name);
    writeFileSync(file, text);
    const { status, stderr } = spawnSync(validator!, ["--infile", file, "--version", "SPDX-2.3"], {
      encoding: "utf8",
    });
    return `${status} ${stderr}`;
  };
  expect(check("good.spdx.json", document())).toBe("0 ");
  const broken = document().replace("SPDXRef-Package-2", "SPDXRef Package 2");
  expect(check("bad.spdx.json", broken)).toMatch(/^1 .*SPDXRef Package 2/s);
});
