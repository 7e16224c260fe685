import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";

const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const TYPES: Record<string, string> = { html: "text/html", js: "text/javascript", css: "text/css" };

/** Paths on the bare origin, and the files of `pages/` that they show. */
const PAGES: Record<string, string> = {
  "/docs": "reference.html",
  "/docs/reference.js": "reference.js",
  "/docs/reference.css": "reference.css",
  "/invitation": "invitation.html",
  "/password-reset": "password-reset.html",
  "/pages/invitation.js": "invitation.js",
  "/pages/password-reset.js": "password-reset.js",
  "/pages/link.js": "link.js",
  "/pages/link.css": "link.css",
};

/**
 * The pages that people see: the reference at /docs, and those that one-time links lead to, whose token stands
 * behind the # and so reaches no server. They load nothing from elsewhere.
 */
export async function pages(app: FastifyInstance, prefix: string): Promise<void> {
  for (const [path, file] of Object.entries(PAGES)) {
    const text = await readFile(join(import.meta.dirname, "../pages", file), "utf8");
    serve(app, path, TYPES[file.split(".").at(-1)!]!, () => text.replace("{{api}}", prefix));
  }
}

/**
 * GET /openapi.json (and below the prefix), with this installation's base URL as its server. The origin leads to
 * the reference page, and who asks it for JSON to the document.
 */
export async function reference(app: FastifyInstance, baseUrl: () => string, prefix: string): Promise<void> {
  const document = JSON.parse(await readFile(join(import.meta.dirname, "../openapi.json"), "utf8"));
  let json = "";
  const text = () => {
    json ||= JSON.stringify({ ...document, servers: [{ url: baseUrl() }] });
    return json;
  };
  app.get("/", (request, reply) => {
    const wantsJson = /json/.test(request.headers.accept ?? "") && !/html/.test(request.headers.accept ?? "");
    reply
      .headers({ "cache-control": "no-cache", vary: "accept", "x-request-id": request.id })
      .redirect(wantsJson ? "/openapi.json" : "/docs");
  });
  for (const path of new Set(["/openapi.json", `${prefix}/openapi.json`]))
    serve(app, path, "application/json", text);
}

function serve(app: FastifyInstance, path: string, type: string, body: () => string): void {
  app.get(path, (request, reply) =>
    reply
      .headers({
        "content-type": `${type}; charset=utf-8`,
        "content-security-policy": CSP,
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cache-control": "no-cache",
        "x-request-id": request.id,
      })
      .send(body()),
  );
}
