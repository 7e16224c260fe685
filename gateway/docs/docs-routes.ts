import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { serveFiles, serveText } from "../http/static-text.ts";

/** Paths on the bare origin, and the files of `page/` that they serve. */
const FILES: Record<string, string> = {
  "/docs": "reference.html",
  "/docs/reference.js": "reference.js",
  "/docs/operation-view.js": "operation-view.js",
  "/docs/schema-view.js": "schema-view.js",
  "/docs/try-it.js": "try-it.js",
  "/docs/document.js": "document.js",
  "/docs/element.js": "element.js",
  "/docs/reference.css": "reference.css",
};

/**
 * Registers the reference page at /docs and the document that it shows: GET /openapi.json (and below the prefix),
 * with this installation's base URL as its server. The origin redirects clients that accept JSON to the document, and
 * browsers to `home`.
 */
export async function docsRoutes(
  app: FastifyInstance,
  { baseUrl, prefix, home }: { baseUrl: () => string; prefix: string; home: string },
): Promise<void> {
  await serveFiles(app, join(import.meta.dirname, "page"), FILES);
  const document = JSON.parse(await readFile(join(import.meta.dirname, "../openapi.json"), "utf8"));
  let json = "";
  const text = () => {
    json ||= JSON.stringify({ ...document, servers: [{ url: baseUrl() }] });
    return json;
  };
  for (const path of new Set(["/openapi.json", `${prefix}/openapi.json`]))
    serveText(app, path, "openapi.json", text);
  app.get("/", (request, reply) => {
    const { accept = "" } = request.headers;
    const isBrowser = /html/.test(accept);
    const wantsJson = /json/.test(accept) && !isBrowser;
    reply
      .headers({ "cache-control": "no-cache", vary: "accept", "x-request-id": request.id })
      .redirect(wantsJson ? "/openapi.json" : isBrowser ? home : "/docs");
  });
}
