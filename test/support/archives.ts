import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { type Header, pack } from "tar-stream";

export type ArchiveEntry = Partial<Header> & { name: string; content?: string | Buffer };

/** Returns a gzipped tarball of these entries, whether they are valid or not. */
export async function archiveOf(entries: ArchiveEntry[]): Promise<Buffer> {
  return gzipSync(await tarOf(entries));
}

export async function tarOf(entries: ArchiveEntry[]): Promise<Buffer> {
  const packed = pack();
  const chunks: Buffer[] = [];
  packed.on("data", (chunk) => chunks.push(chunk as Buffer));
  const ended = once(packed, "end");
  for (const { content, ...header } of entries) packed.entry(header, content ?? "");
  packed.finalize();
  await ended;
  return Buffer.concat(chunks);
}

/** Returns the files of an example app, as a user packs them with `tar -C DIR .`. */
export function exampleApp(name: "node" | "python" | "static"): ArchiveEntry[] {
  const files = {
    node: ["server.js", "package.json"],
    python: ["main.py"],
    static: ["index.html", "style.css"],
  };
  const folder = join(import.meta.dirname, "../apps", name);
  return files[name].map((file) => ({ name: `./${file}`, content: readFileSync(join(folder, file)) }));
}

/** Returns the files of an example app, for a commit. */
export function exampleFiles(name: "node" | "python" | "static"): Record<string, string> {
  return Object.fromEntries(exampleApp(name).map((file) => [file.name.slice(2), String(file.content)]));
}
