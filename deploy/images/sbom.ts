/**
 * node sbom.ts NAME VERSION FILE: writes an image's software bill of materials, as a CycloneDX document: Node.js, the
 * installed npm packages (from npm's own record of them) and Debian packages.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { cycloneDx, debianPackages, nodeComponent, npmPackages } from "./components.ts";

/** npm's records of what is installed, and of what the console was built with, parts of which are in its files. */
const npmRecords = ["/app/node_modules/.package-lock.json", "/app/clients/console/packages.json"];
const debianRecord = "/var/lib/dpkg/status";

const there = (files: string[]) =>
  files.filter((file) => existsSync(file)).map((file) => readFileSync(file, "utf8"));

const [name = "", version = "", file = ""] = process.argv.slice(2);
mkdirSync(dirname(file), { recursive: true });
writeFileSync(
  file,
  cycloneDx(name, version, [
    nodeComponent(process.versions.node),
    ...there(npmRecords).flatMap(npmPackages),
    ...there([debianRecord]).flatMap(debianPackages),
  ]),
);
