import { failDetection, type SourceTree } from "./build-plan.ts";
import { dependsOn, type PackageJson, readPackage, scriptOf } from "./package-json.ts";

/** A package of a workspace. */
export type Member = { folder: string; pkg: PackageJson };

/** More than a workspace has, all its patterns together: a source cannot keep detection busy. */
const MAX_FOLDERS = 5_000;

/** Returns the packages of the workspace whose root the tree is; undefined when it is none. */
export function findWorkspace(tree: SourceTree): Member[] | undefined {
  const patterns = workspacePatterns(tree);
  if (patterns === undefined) return undefined;
  const chosen = new Set<string>();
  const budget = { left: MAX_FOLDERS };
  for (const pattern of patterns) {
    const excluded = pattern.startsWith("!");
    const segments = pattern
      .slice(excluded ? 1 : 0)
      .split("/")
      .filter((one) => one !== "" && one !== ".");
    if (segments.includes("..")) continue;
    for (const folder of expand(tree, segments, budget))
      if (excluded) chosen.delete(folder);
      else chosen.add(folder);
  }
  return [...chosen].toSorted().flatMap((folder) => {
    const pkg = readPackage(tree, folder);
    return pkg === undefined ? [] : [{ folder, pkg }];
  });
}

function workspacePatterns(tree: SourceTree): string[] | undefined {
  const yaml = tree.read("pnpm-workspace.yaml");
  if (yaml !== undefined) {
    const lines = yaml.split(/\r?\n/);
    const begin = lines.findIndex((line) => /^packages:/.test(line));
    const rest = begin < 0 ? [] : lines.slice(begin + 1);
    const end = rest.findIndex((line) => /^[^\s#-]/.test(line));
    return rest.slice(0, end < 0 ? undefined : end).flatMap(readItem);
  }
  const { workspaces } = readPackage(tree) ?? {};
  const list = Array.isArray(workspaces) ? workspaces : (workspaces as { packages?: unknown })?.packages;
  return Array.isArray(list) ? list.filter((one) => typeof one === "string") : undefined;
}

/** Returns the text of an item of a YAML list, if the line is one. */
function readItem(line: string): string[] {
  const item = line.trim();
  if (!item.startsWith("-")) return [];
  const value = item.slice(1).trim();
  const quote = value[0];
  if (quote === '"' || quote === "'") return [value.slice(1).split(quote)[0]!];
  return [value.split(" #")[0]!.trim()];
}

/** Returns the folders that a pattern of names, `*` and `**` names. */
function expand(tree: SourceTree, segments: string[], budget: { left: number }, base = ""): string[] {
  const [segment, ...rest] = segments;
  if (--budget.left < 0)
    return failDetection("source_invalid", `The workspace names more than ${MAX_FOLDERS} folders.`);
  if (segment === undefined) return base === "" ? [] : [base];
  const inside = (name: string) => (base ? `${base}/${name}` : name);
  if (!segment.includes("*")) return expand(tree, rest, budget, inside(segment));
  const parts = segment.split("*");
  const fits = (name: string) =>
    segment === "**" ||
    (parts.length === 2 && name.startsWith(parts[0]!) && name.endsWith(parts[1]!)) ||
    segment === "*";
  const names = tree.folders(base).filter((name) => name !== "node_modules" && !name.startsWith("."));
  const found = names.filter(fits).flatMap((name) => {
    return expand(tree, segment === "**" ? segments : rest, budget, inside(name));
  });
  return segment === "**" ? [...new Set([...expand(tree, rest, budget, base), ...found])] : found;
}

/** Returns the folders to build for a package, in order: those it depends on in the workspace, then itself. */
export function buildOrder(members: Member[], folder: string): string[] {
  const order: string[] = [];
  const seen = new Set<string>();
  const visit = (member: Member) => {
    if (seen.has(member.folder)) return;
    seen.add(member.folder);
    for (const other of members)
      if (typeof other.pkg.name === "string" && dependsOn(member.pkg, other.pkg.name)) visit(other);
    if (scriptOf(member.pkg, "build") !== undefined) order.push(member.folder);
  };
  const start = members.find((member) => member.folder === folder);
  if (start) visit(start);
  return order;
}
