import { BuildFailure } from "../build-failure.ts";
import type { SourceTree } from "./build-plan.ts";

/** Returns the tree of these files; an object is the content of a JSON file. */
export function treeOf(files: Record<string, string | object>): SourceTree {
  const paths = Object.keys(files);
  return {
    exists: (path) => path in files,
    read: (path) => {
      const content = files[path];
      return typeof content === "object" ? JSON.stringify(content) : content;
    },
    folders: (folder) => {
      const inside = folder === "" ? paths : paths.filter((path) => path.startsWith(`${folder}/`));
      const rest = inside.map((path) => (folder === "" ? path : path.slice(folder.length + 1)));
      return [...new Set(rest.filter((path) => path.includes("/")).map((path) => path.split("/")[0]!))];
    },
  };
}

/** Returns the code and the message with which a detection fails. */
export function failureOf(detect: () => unknown): [code: string, message: string] {
  try {
    detect();
  } catch (error) {
    if (error instanceof BuildFailure) return [error.code, error.message];
    throw error;
  }
  throw new Error("it was detected");
}
