import { readFile } from "node:fs/promises";
import { isRefusal } from "../../../typescript/src/errors.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT, usage } from "../../failure.ts";
import { readStdin } from "../../terminal/prompt.ts";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"];

const api = command({
  name: "api",
  summary: "Send any request of the API",
  args: "METHOD PATH",
  arity: [2, 2],
  about: [
    "PATH is relative to /v1. {account}, {project}, {environment} and {service} in it are those of this folder. The answer is printed as JSON, an error too, with exit code 1. The reference is at /docs of the installation.",
  ],
  examples: [
    ["api GET /accounts/{account}/projects", "a list"],
    ['api POST /accounts/{account}/projects -d \'{"name":"shop"}\'', "with a body"],
    ["api PATCH /accounts/{account} -d @body.json", "with the body of a file"],
  ],
  options: {
    data: { kind: "text", short: "d", value: "BODY", about: "JSON to send; @FILE reads a file, `-` stdin" },
    include: { kind: "flag", short: "i", about: "Print status and headers to stderr" },
  },
  async run({ args: [given, path], options }, ctx) {
    const { io, signal } = ctx;
    const method = given!.toUpperCase();
    if (!METHODS.includes(method))
      throw usage(`${given} is no method: ${METHODS.join(", ")}.`, "berth api --help");
    if (!path!.startsWith("/")) throw usage(`PATH begins with a slash: /${path}`, "berth api --help");
    const body = options.data === undefined ? undefined : await bodyOf(options.data);
    const filled = await fill(ctx, path!);
    const berth = await ctx.berth();
    const onHead = ({ status, headers }: { status: number; headers: Headers }) => {
      if (!options.include) return;
      io.note(`HTTP ${status}`);
      for (const [name, value] of headers) io.note(`${name}: ${value}`);
    };
    try {
      const answer = await berth.request(method, filled, body, { signal, onHead });
      if (answer !== undefined) io.outJson(answer);
      return EXIT.ok;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const {
        name: _,
        status: __,
        retryAfter: ___,
        stack: ____,
        ...envelope
      } = error as typeof error & object;
      io.outJson({ error: { ...envelope, message: error.message } });
      return EXIT.refused;
    }
  },
});

async function bodyOf(data: string): Promise<unknown> {
  const text =
    data === "-" ? await readStdin() : data.startsWith("@") ? await readFile(data.slice(1), "utf8") : data;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw usage(`The body is no JSON: ${(error as Error).message}`, "berth api --help");
  }
}

async function fill({ at }: Context, path: string): Promise<string> {
  let filled = path.replace(/^\/v1(?=\/)/, "");
  const values: Record<string, () => Promise<string>> = {
    "{account}": async () => (await at.account()).accountId,
    "{project}": async () => (await at.project()).projectId,
    "{environment}": async () => (await at.environment()).environmentId,
    "{service}": async () => (await at.service()).service,
  };
  for (const [name, find] of Object.entries(values))
    if (filled.includes(name)) filled = filled.replaceAll(name, encodeURIComponent(await find()));
  return filled;
}

export const commands = [api];
