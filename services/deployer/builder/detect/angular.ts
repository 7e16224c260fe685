import { isObject } from "../../../kit/process/config.ts";
import type { SourceTree } from "./build-plan.ts";
import { dependsOn, type PackageJson, parseJson } from "./package-json.ts";

/** What the build of an Angular app makes: the folder of its pages, and the server that draws them, if it has one. */
export type AngularOutput = { site: string; server?: string };

/** Returns what the build makes, by the angular.json; undefined for other packages and for a choice of several apps. */
export function findAngular(tree: SourceTree, pkg: PackageJson): AngularOutput | undefined {
  if (!dependsOn(pkg, "@angular/core")) return undefined;
  const projects = member(parseJson(tree.read("angular.json")), "projects");
  const apps = Object.entries(isObject(projects) ? projects : {}).filter(
    ([, project]) => member(project, "projectType") === "application",
  );
  const [name, app] = apps.find(([one]) => one === pkg.name) ?? (apps.length === 1 ? apps[0]! : []);
  if (name === undefined) return undefined;
  const build = member(member(app, "architect") ?? member(app, "targets"), "build");
  const options = member(build, "options");
  const path = member(options, "outputPath");
  const base = [path, member(path, "base"), `dist/${name}`].find((one) => typeof one === "string") as string;
  const folder = base.replace(/^\.\/|\/$/g, "");
  // The older builders fill the folder itself.
  if (!String(member(build, "builder")).endsWith(":application")) return { site: folder };
  const inside = (kind: "browser" | "server") => {
    const named = member(path, kind);
    return [folder, typeof named === "string" ? named : kind].filter((one) => one !== "").join("/");
  };
  const rendered = isObject(member(options, "ssr")) && member(options, "outputMode") !== "static";
  return { site: inside("browser"), ...(rendered && { server: `${inside("server")}/server.mjs` }) };
}

function member(of: unknown, name: string): unknown {
  return isObject(of) ? of[name] : undefined;
}
