import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { refused } from "../failure.ts";

export const PROJECT_FILE = ".berth.json";

type Named = { id: string; name: string };

/** What a folder is linked to. It holds no secret, and can be committed. */
export type Link = {
  origin: string;
  account: Named;
  project: Named;
  environment: Named;
  service?: string;
};

/** Returns the link of a folder, from the nearest project file upwards; undefined if there is none. */
export async function findLink(folder: string): Promise<{ file: string; link: Link } | undefined> {
  for (let at = resolve(folder); ; at = dirname(at)) {
    const file = join(at, PROJECT_FILE);
    const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
      throw error;
    });
    if (text !== undefined) return { file, link: linkIn(text, file) };
    if (dirname(at) === at) return undefined;
  }
}

function linkIn(text: string, file: string): Link {
  try {
    const found = JSON.parse(text) as Partial<Link>;
    const { origin, account, project, environment, service } = found;
    const named = [account, project, environment].every(
      (each) => typeof each?.id === "string" && typeof each.name === "string",
    );
    if (typeof origin === "string" && named && (service === undefined || typeof service === "string"))
      return found as Link;
  } catch {}
  throw refused(`${file} is damaged.`, `rm ${file}, then berth link`);
}

/** Writes the link of a folder, and returns its file. */
export async function writeLink(folder: string, link: Link): Promise<string> {
  const file = join(folder, PROJECT_FILE);
  const made = `${file}.${process.pid}`;
  try {
    await writeFile(made, `${JSON.stringify(link, null, 2)}\n`);
    await rename(made, file);
  } catch (error) {
    await rm(made, { force: true });
    throw error;
  }
  return file;
}
