import { BuildFailure } from "../build-failure.ts";
import type { SourceTree } from "./build-plan.ts";

/** Returns the tree of these files; an object is the content of a JSON file. */
export function treeOf(files: Record<string, string | object>): SourceTree {
  const paths = Object.keys(files);
  const inside = (folder: string) =>
    paths.flatMap((path) =>
      folder === "" ? [path] : path.startsWith(`${folder}/`) ? [path.slice(folder.length + 1)] : [],
    );
  return {
    exists: (path) => path in files,
    read: (path) => {
      const content = files[path];
      return typeof content === "object" ? JSON.stringify(content) : content;
    },
    folders: (folder) => [
      ...new Set(inside(folder).flatMap((path) => (path.includes("/") ? [path.split("/")[0]!] : []))),
    ],
    files: (folder) => inside(folder).filter((path) => !path.includes("/")),
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
