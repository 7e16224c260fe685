import { isObject } from "../../../kit/process/config.ts";
import { failDetection, type SourceTree } from "./build-plan.ts";

/** The members of a package.json that detection considers; nothing is sure of their values. */
export type PackageJson = {
  name?: unknown;
  main?: unknown;
  packageManager?: unknown;
  scripts?: Record<string, unknown>;
  dependencies?: object;
  devDependencies?: object;
  optionalDependencies?: object;
  workspaces?: unknown;
};

/** Returns the package.json of a folder ("" is the root), undefined when it has none; fails for what is no JSON object. */
export function readPackage(tree: SourceTree, folder = ""): PackageJson | undefined {
  const path = folder ? `${folder}/package.json` : "package.json";
  const text = tree.read(path);
  if (text === undefined) return undefined;
  const value = parseJson(text);
  return isObject(value) ? value : failDetection("source_invalid", `The ${path} is not valid JSON.`);
}

export function scriptOf({ scripts }: PackageJson, name: string): string | undefined {
  const script = scripts?.[name];
  return typeof script === "string" && script.trim() !== "" ? script : undefined;
}

/** Whether a package is among the dependencies, those for development included. */
export function dependsOn(pkg: PackageJson, name: string): boolean {
  return [pkg.dependencies, pkg.devDependencies, pkg.optionalDependencies].some(
    (list) => list !== null && typeof list === "object" && Object.hasOwn(list, name),
  );
}

export function parseJson(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return undefined;
  }
}
