import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Returns the path of the first program of the PATH that has one of these names; undefined when there is none. */
export function findOnPath(...names: string[]): string | undefined {
  return (process.env.PATH ?? "")
    .split(delimiter)
    .flatMap((folder) => names.map((name) => join(folder, name)))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}
