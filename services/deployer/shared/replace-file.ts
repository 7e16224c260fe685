import { renameSync, writeFileSync } from "node:fs";

/** Writes a file beside its path and renames it (mode 0600): readers find the old text or the new, never a part. */
export function replaceFile(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}
