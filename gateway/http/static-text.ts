import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";

const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const TYPES: Record<string, string> = {
  html: "text/html",
  js: "text/javascript",
  css: "text/css",
  json: "application/json",
};

/**
 * Serves a text at a path of the origin, with a policy under which a page loads nothing from other origins. The
 * extension of `name` says its type: `.html`, `.js`, `.css` or `.json`.
 */
export function serveText(app: FastifyInstance, path: string, name: string, text: () => string): void {
  app.get(path, (request, reply) =>
    reply
      .headers({
        "content-type": `${TYPES[name.split(".").at(-1)!]}; charset=utf-8`,
        "content-security-policy": CSP,
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cache-control": "no-cache",
        "x-request-id": request.id,
      })
      .send(text()),
  );
}

/** Serves files of a folder, which are named by path. */
export async function serveFiles(
  app: FastifyInstance,
  folder: string,
  files: Record<string, string>,
): Promise<void> {
  for (const [path, name] of Object.entries(files)) {
    const text = await readFile(join(folder, name), "utf8");
    serveText(app, path, name, () => text);
  }
}
