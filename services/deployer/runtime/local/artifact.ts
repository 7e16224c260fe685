import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Sight } from "../../../kit/process/walls.ts";

/** What the local builder writes last into an artifact's folder: a folder without it is unfinished. */
export type ArtifactManifest = {
  runtime: string;
  command?: string;
  /** Folders, relative to the app's, that come first on PATH. */
  path: string[];
  /** The commit that was built, of a git source. */
  commit?: string;
};

/** The folders of Python that an app made with it sees besides its own, also below the home folder. */
export type PythonFolders = Pick<Required<Sight>, "read" | "tools">;

/** Returns what an artifact needs of Python: nothing, unless it was made with it. */
export function pythonOf(manifest: ArtifactManifest | undefined, python: PythonFolders): PythonFolders {
  return manifest?.runtime === "python" ? python : { read: [], tools: [] };
}

const SCHEME = "directory:";

export function directoryArtifact(buildId: string): string {
  return `${SCHEME}${buildId}`;
}

/** Returns the build id of the local builder's artifact; undefined for any other artifact. */
export function directoryBuildId(artifact: string): string | undefined {
  const id = artifact.startsWith(SCHEME) ? artifact.slice(SCHEME.length) : "";
  return /^[A-Za-z0-9_-]{1,100}$/.test(id) ? id : undefined;
}

export function artifactFolders(root: string, buildId: string) {
  const folder = join(root, buildId);
  return { folder, app: join(folder, "app"), manifest: join(folder, "berth.json") };
}

/** Returns undefined when the artifact does not exist or is unfinished. */
export function readManifest(root: string, buildId: string): ArtifactManifest | undefined {
  const { app, manifest } = artifactFolders(root, buildId);
  try {
    return existsSync(app) ? JSON.parse(readFileSync(manifest, "utf8")) : undefined;
  } catch {
    return undefined;
  }
}
