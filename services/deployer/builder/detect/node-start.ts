import { shellQuote } from "../../shared/shell-quote.ts";
import type { ServiceType } from "../../terms/services.ts";
import { findAngular } from "./angular.ts";
import type { SourceTree } from "./build-plan.ts";
import { dependsOn, type PackageJson, scriptOf } from "./package-json.ts";

/** How a built Node.js package runs: a process, or a static site in a folder of the package. */
export type NodeStart = { command: string } | { site: string; fallback: boolean; kind: string };

export type StartProblem = { problem: string };

/** The sites that a build makes; with `fallback`, the browser draws pages that are no files. */
const SITES: { dependency: string; kind: string; folder: string; fallback: boolean }[] = [
  { dependency: "@docusaurus/core", kind: "Docusaurus", folder: "build", fallback: false },
  { dependency: "gatsby", kind: "Gatsby", folder: "public", fallback: false },
  { dependency: "astro", kind: "Astro", folder: "dist", fallback: false },
  { dependency: "@11ty/eleventy", kind: "Eleventy", folder: "_site", fallback: false },
  { dependency: "react-scripts", kind: "Create React App", folder: "build", fallback: true },
  { dependency: "@vue/cli-service", kind: "Vue CLI", folder: "dist", fallback: true },
  { dependency: "vite", kind: "Vite", folder: "dist", fallback: true },
  { dependency: "parcel", kind: "Parcel", folder: "dist", fallback: true },
];

/** Commands, up to their options, that serve the source to its developer and are no way to run what was built. */
const DEVELOPMENT_SERVERS = new Set([
  ...["vite", "vite dev", "vite serve", "vite preview"],
  ...["react-scripts start", "vue-cli-service serve", "astro dev", "astro preview"],
  ...["gatsby develop", "gatsby serve", "docusaurus start", "docusaurus serve"],
  ...["parcel", "parcel serve", "next dev", "nuxt dev", "nest start", "ng serve"],
]);

function isDevelopmentServer(script: string): boolean {
  const words = script.trim().split(/\s+/);
  if (words[0] === "npx") words.shift();
  const [program = "", ...others] = words;
  if (/^(@11ty\/)?eleventy$/.test(program)) return others.includes("--serve");
  const options = words.findIndex((word) => word.startsWith("-"));
  const command = words.slice(0, options < 0 ? undefined : options);
  const pages = command.filter((word) => !(program === "parcel" && word.endsWith(".html")));
  return DEVELOPMENT_SERVERS.has(pages.join(" "));
}

/**
 * Returns how a package runs after its build, by what it depends on and its scripts; undefined when nothing says it.
 * The tree is that of the package's folder, before the build.
 */
export function findStart(
  tree: SourceTree,
  pkg: PackageJson,
  { type, builds, outputDirectory }: { type: ServiceType; builds: boolean; outputDirectory?: string },
): NodeStart | StartProblem | undefined {
  if (type === "web" && outputDirectory !== undefined)
    return { site: outputDirectory, fallback: true, kind: "static" };
  const start = scriptOf(pkg, "start");
  const prestart = scriptOf(pkg, "prestart");
  const forDevelopment = start !== undefined && isDevelopmentServer(start);
  const framework = startOfFramework(tree, pkg);
  if (framework && (start === undefined || forDevelopment || "site" in framework))
    return type === "web" || "command" in framework ? framework : undefined;
  if (start !== undefined && !forDevelopment)
    return { command: prestart === undefined ? start : `(${prestart}) && ${start}` };
  const site = findSite(tree, pkg);
  if (type === "web" && builds && site) return site;
  const production = scriptOf(pkg, "start:prod");
  if (production !== undefined) return { command: production };
  const file = mainFile(tree, pkg, builds);
  if (file !== undefined) return { command: `${programOf(file, pkg)} ${shellQuote(file)}` };
  return start === undefined ? undefined : { command: start };
}

function findSite(tree: SourceTree, pkg: PackageJson): NodeStart | undefined {
  const angular = findAngular(tree, pkg);
  if (angular) return { site: angular.site, fallback: true, kind: "Angular" };
  const site = SITES.find(({ dependency }) => dependsOn(pkg, dependency));
  return site && { ...site, site: site.folder };
}

/** Frameworks whose builds are started in one way, or whose settings say that they make a site. */
function startOfFramework(tree: SourceTree, pkg: PackageJson): NodeStart | StartProblem | undefined {
  if (dependsOn(pkg, "next"))
    return exportsSite(tree) ? { site: "out", fallback: false, kind: "Next.js" } : { command: "next start" };
  if (dependsOn(pkg, "nuxt")) return { command: "node .output/server/index.mjs" };
  if (dependsOn(pkg, "astro") && dependsOn(pkg, "@astrojs/node"))
    return { command: "HOST=0.0.0.0 node ./dist/server/entry.mjs" };
  const angular = findAngular(tree, pkg);
  if (angular?.server !== undefined) return { command: startAngular(angular.server) };
  if (!dependsOn(pkg, "@sveltejs/kit")) return undefined;
  if (dependsOn(pkg, "@sveltejs/adapter-static")) return { site: "build", fallback: true, kind: "SvelteKit" };
  if (dependsOn(pkg, "@sveltejs/adapter-node")) return { command: "node build" };
  return {
    problem:
      "This SvelteKit app has no adapter that makes something to run. Add @sveltejs/adapter-node, or @sveltejs/adapter-static for a static site.",
  };
}

/** Its server refuses hosts that it was not told. Berth's router lets through none but those of the service. */
function startAngular(server: string): string {
  return `NG_ALLOWED_HOSTS="\${NG_ALLOWED_HOSTS:-*}" node ${shellQuote(server)}`;
}

function exportsSite(tree: SourceTree): boolean {
  const config = ["next.config.js", "next.config.mjs", "next.config.ts"].map((file) => tree.read(file));
  return config.some((text) => text !== undefined && /\boutput\s*:\s*['"`]export['"`]/.test(text));
}

const NAMES = ["server", "index", "app", "main"];
const ENDINGS = [".js", ".mjs", ".cjs", ".ts", ".mts"];

/** Node.js runs TypeScript only where it needs no compiling, and where imports name the files as they are. */
function programOf(file: string, pkg: PackageJson): string {
  return file.endsWith("ts") && dependsOn(pkg, "tsx") ? "tsx" : "node";
}

/** Returns `main`, which a build may have yet to make, else the usual file that exists. */
function mainFile(tree: SourceTree, pkg: PackageJson, builds: boolean): string | undefined {
  const main = typeof pkg.main === "string" ? pkg.main.replace(/^\.\//, "") : undefined;
  const inside = main !== undefined && main !== "" && !main.split("/").includes("..");
  if (inside && (tree.exists(main) || (builds && /^(dist|build|lib|out)\//.test(main)))) return main;
  const usual = ["", "src/"].flatMap((folder) =>
    NAMES.flatMap((name) => ENDINGS.map((ending) => `${folder}${name}${ending}`)),
  );
  return usual.find((file) => tree.exists(file));
}
