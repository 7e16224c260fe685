import { writeFileSync } from "node:fs";
import { clipLine } from "../../shared/clip-log.ts";
import { maskSecrets } from "../../shared/mask-secrets.ts";
import { BuildFailure } from "../port.ts";
import { buildImage } from "./image/build-image.ts";
import { type JobEnd, type JobRecord, type JobRequest, PATHS, REQUEST_VARIABLE } from "./job-request.ts";

/**
 * The program of a build's Job. It writes records as lines of JSON, and how it ended to the termination
 * message as well, where it outlives the log.
 */

/** The kubelet keeps 4096 bytes. */
const MESSAGE_BYTES = 4_000;

// The first process of a container is not ended by a signal that it does not handle.
process.on("SIGTERM", () => process.exit(143));

const given = process.env[REQUEST_VARIABLE];
if (given === undefined) throw new Error(`${REQUEST_VARIABLE} is not set`);
delete process.env[REQUEST_VARIABLE];
const request = JSON.parse(given) as JobRequest;
const mask = maskSecrets(secretsOf(request));

let n = 0;
type Said<T> = T extends { n: number } ? Omit<T, "n"> : never;
function write(record: Said<JobRecord>): void {
  process.stdout.write(`${JSON.stringify({ n: n++, ...record })}\n`);
}

const end = await buildImage(request, {
  onStage: (stage) => write({ stage }),
  onCommit: (commit) => write({ commit }),
  log: (line) => write({ line: clipLine(mask(line)) }),
}).then(
  (result): JobEnd => ({ result }),
  (error): JobEnd => {
    if (error instanceof BuildFailure) {
      const { stage, code, message } = error;
      return { failure: { stage, code, message: clipLine(mask(message), 2_000) } };
    }
    return { broken: clipLine(mask(String((error as Error)?.message ?? error)), 2_000) };
  },
);
writeFileSync(PATHS.terminationMessage, messageOf(end));
write({ end });
process.exit("result" in end ? 0 : 1);

function messageOf(whole: JobEnd): string {
  const text = JSON.stringify(whole);
  if (Buffer.byteLength(text) <= MESSAGE_BYTES || !("result" in whole)) return text;
  const { command: _, ...result } = whole.result;
  return JSON.stringify({ result });
}

/** What no line and no message shows. */
function secretsOf({ source, registry }: JobRequest): string[] {
  const secrets =
    source.kind === "archive" ? [source.url, new URL(source.url).search.slice(1)] : [source.token];
  const auths = Object.values(
    registry.auth === undefined ? {} : ((JSON.parse(registry.auth).auths ?? {}) as object),
  );
  for (const entry of auths as { auth?: string; password?: string }[])
    secrets.push(entry.auth, entry.password);
  return secrets.filter((one): one is string => one !== undefined && one !== "");
}
