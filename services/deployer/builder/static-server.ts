import { createReadStream } from "node:fs";
import { realpath, stat } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { basename, extname, join, resolve, sep } from "node:path";
import { env } from "node:process";
import { parseArgs } from "node:util";

/**
 * Serves the files of one folder on PORT: `node static-server.mts FOLDER [--fallback] [--address ADDRESS]`. With
 * `--fallback`, a path that is no file gets the site's index.html, unless it has a 404.html. The program is copied
 * beside a static site and runs there as the site's process, so it imports nothing of Berth.
 */
const { values: options, positionals } = parseArgs({
  options: { fallback: { type: "boolean" }, address: { type: "string", default: "127.0.0.1" } },
  allowPositionals: true,
});

const TYPES: Record<string, string> = {
  ".avif": "image/avif",
  ".css": "text/css; charset=utf-8",
  ".gif": "image/gif",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/x-icon",
  ".jpeg": "image/jpeg",
  ".jpg": "image/jpeg",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".map": "application/json",
  ".mjs": "text/javascript; charset=utf-8",
  ".mp4": "video/mp4",
  ".pdf": "application/pdf",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".wasm": "application/wasm",
  ".webmanifest": "application/manifest+json",
  ".webp": "image/webp",
  ".woff": "font/woff",
  ".woff2": "font/woff2",
  ".xml": "application/xml",
};

const root = await realpath(resolve(positionals[0] ?? "."));

async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
  if (req.method !== "GET" && req.method !== "HEAD") {
    res.setHeader("allow", "GET, HEAD");
    return answerText(res, 405, "This site only supports GET and HEAD.");
  }
  const path = decodePath(req.url ?? "/");
  if (path === undefined) return answerText(res, 400, "The path is not valid.");
  const found = await findFile(join(root, path));
  if (found === "folder" && !path.endsWith("/")) {
    // Two leading slashes would name another host.
    res.writeHead(308, { location: `/${encodeURI(path).replace(/^\/+/, "")}/`, "content-length": 0 }).end();
    return;
  }
  const file = found === "folder" ? await findFile(join(root, path, "index.html")) : found;
  if (file && file !== "folder") return sendFile(req, res, 200, file);
  const page = await findFile(join(root, "404.html"));
  if (page && page !== "folder") return sendFile(req, res, 404, page);
  const drawn = options.fallback && isPage(path) ? await findFallback() : undefined;
  if (drawn) return sendFile(req, res, 200, drawn);
  answerText(res, 404, "There is no such page.");
}

/** Whether a path may be a page that the browser draws: a missing script must not be answered with a page. */
function isPage(path: string): boolean {
  return extname(path) === "" || extname(path) === ".html";
}

async function findFallback(): Promise<FoundFile | undefined> {
  for (const name of ["200.html", "index.html"]) {
    const found = await findFile(join(root, name));
    if (found && found !== "folder") return found;
  }
  return undefined;
}

/** Folders in which builds give each file a name that changes with its content. */
const HASHED = /^\/(assets|_astro|_next\/static|_app\/immutable|static\/(js|css|media))\//;

/** Whether a path names one version of a file: with a hash of 8 or more characters, which are no word. */
function isVersioned(path: string): boolean {
  if (!HASHED.test(path)) return false;
  const stem = basename(path, extname(path));
  const hash = stem.slice(Math.max(stem.lastIndexOf("."), stem.lastIndexOf("-")) + 1);
  return hash !== stem && hash.length >= 8 && /\d|[a-z_][A-Z]/.test(hash);
}

/** Returns the decoded path; undefined when it is not valid. */
function decodePath(url: string): string | undefined {
  try {
    const path = decodeURIComponent(url.replace(/[?#].*$/s, ""));
    if (!path.startsWith("/") || path.includes("\0") || path.includes("\\")) return undefined;
    return path;
  } catch {
    return undefined;
  }
}

type FoundFile = {
  path: string;
  size: number;
  modified: Date;
};

/** Returns what a path leads to; undefined when its real path is outside the root or a name begins with a dot. */
async function findFile(path: string): Promise<FoundFile | "folder" | undefined> {
  try {
    const real = await realpath(path);
    if (real !== root && !real.startsWith(root + sep)) return undefined;
    const shown = `${resolve(path).slice(root.length)}${sep}${real.slice(root.length)}`;
    if (shown.split(sep).some((name) => name.startsWith(".") && name !== ".well-known")) return undefined;
    const found = await stat(real);
    if (found.isDirectory()) return "folder";
    return found.isFile() ? { path: real, size: found.size, modified: found.mtime } : undefined;
  } catch {
    return undefined;
  }
}

function sendFile(req: IncomingMessage, res: ServerResponse, status: number, file: FoundFile): void {
  const tag = `"${file.size.toString(36)}-${file.modified.getTime().toString(36)}"`;
  res.setHeader("etag", tag);
  const unchanging = status === 200 && isVersioned(file.path.slice(root.length).replaceAll(sep, "/"));
  // Everything else is revalidated each time, and answered with 304.
  res.setHeader("cache-control", unchanging ? "public, max-age=31536000, immutable" : "no-cache");
  res.setHeader("x-content-type-options", "nosniff");
  if (status === 200 && req.headers["if-none-match"] === tag) {
    res.writeHead(304).end();
    return;
  }
  const type = TYPES[extname(file.path).toLowerCase()] ?? "application/octet-stream";
  res.writeHead(status, {
    "content-type": type,
    "content-length": file.size,
    "last-modified": file.modified.toUTCString(),
  });
  if (req.method === "HEAD") res.end();
  else
    createReadStream(file.path, { end: Math.max(0, file.size - 1) })
      .on("error", () => res.destroy())
      .pipe(res);
}

function answerText(res: ServerResponse, status: number, text: string): void {
  res.writeHead(status, { "content-type": "text/plain; charset=utf-8" }).end(`${text}\n`);
}

createServer((req, res) => void serve(req, res)).listen(Number(env.PORT), options.address, () => {
  // biome-ignore lint/suspicious/noConsole: what an app prints is its log.
  console.log(`serving the site on port ${env.PORT}`);
});
process.on("SIGTERM", () => process.exit());
