import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";

const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/**
 * GET /openapi.json (and below the prefix), with this installation's base URL as its server, and the
 * reference page at /docs, which loads nothing from elsewhere. The origin leads to the page, and who asks it for
 * JSON to the document.
 */
export async function reference(app: FastifyInstance, baseUrl: () => string, prefix: string): Promise<void> {
  const document = JSON.parse(await readFile(join(import.meta.dirname, "openapi.json"), "utf8"));
  let json = "";
  const page = (name: string) => readFile(join(import.meta.dirname, "pages", name));
  const files: [path: string, type: string, body: Buffer | (() => string)][] = [
    ["/docs", "text/html; charset=utf-8", await page("reference.html")],
    ["/docs/reference.js", "text/javascript; charset=utf-8", await page("reference.js")],
    ["/docs/reference.css", "text/css; charset=utf-8", await page("reference.css")],
  ];
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
    files.push([path, "application/json; charset=utf-8", text]);
  for (const [path, type, body] of files)
    app.get(path, (request, reply) =>
      reply
        .headers({
          "content-type": type,
          "content-security-policy": CSP,
          "x-content-type-options": "nosniff",
          "cache-control": "no-cache",
          "x-request-id": request.id,
        })
        .send(typeof body === "function" ? body() : body),
    );
}
