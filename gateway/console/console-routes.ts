import { readFile } from "node:fs/promises";
import { join } from "node:path";
import fastifyStatic from "@fastify/static";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "../../services/kit/log.ts";

/** Where the console is: its screens are below it. */
export const CONSOLE_PATH = "/console";

/** What `clients/console/build` writes. */
const BUILT = join(import.meta.dirname, "../../clients/console/dist");

const ASSETS = `${CONSOLE_PATH}/assets/`;

const headersFor = (uploads: string) => ({
  "content-security-policy": `default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'${uploads}; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
});

/** The console as it was built: its only document. */
export type ConsoleFiles = { index: string };

/** Returns the console's files; undefined, with a warning in the log, where it was not built. */
export async function readConsole(log: Logger): Promise<ConsoleFiles | undefined> {
  try {
    return { index: await readFile(join(BUILT, "index.html"), "utf8") };
  } catch {
    log.warn("the console was not built, so there is none: npm run build -w @berth/console");
    return undefined;
  }
}

/**
 * Registers the console: one document for all its screens, which is never stored, and files whose names change with their
 * content, which are stored for ever and were compressed when they were built. Its policy allows requests to this origin,
 * and to that of `uploadUrl`.
 */
export async function consoleRoutes(
  app: FastifyInstance,
  { index }: ConsoleFiles,
  { prefix, uploadUrl }: { prefix: string; uploadUrl?: string | undefined },
): Promise<void> {
  const headers = headersFor(uploadUrl === undefined ? "" : ` ${new URL(uploadUrl).origin}`);
  const text = index.replace('content="/v1"', `content="${prefix}"`);
  const document = (request: FastifyRequest, reply: FastifyReply) =>
    reply
      .headers({ ...headers, "cache-control": "no-cache", "x-request-id": request.id })
      .type("text/html; charset=utf-8")
      .send(text);
  app.get(CONSOLE_PATH, document);
  app.get(`${CONSOLE_PATH}/*`, document);
  await app.register(fastifyStatic, {
    root: join(BUILT, "assets"),
    prefix: ASSETS,
    index: false,
    preCompressed: true,
    immutable: true,
    maxAge: "365d",
    setHeaders(response, _path) {
      for (const [name, value] of Object.entries(headers)) response.header(name, value);
    },
  });
}
