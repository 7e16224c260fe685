import { writeFileSync } from "node:fs";
import { clipLine } from "../../shared/clip-log.ts";
import { maskSecrets } from "../../shared/mask-secrets.ts";
import { BuildFailure } from "../build-failure.ts";
import { buildImage } from "./image/build-image.ts";
import { type JobEnd, type JobRecord, type JobRequest, PATHS, REQUEST_VARIABLE } from "./job-request.ts";
import { findNodeFault } from "./node-check/node-faults.ts";

/**
 * The program of a build's Job. It writes its progress and its end as records, one line of JSON each; the end also goes
 * to the termination message, which outlives the log.
 */

/** The kubelet keeps 4096 bytes of a termination message. */
const MESSAGE_BYTES = 4_000;

// A signal does not end the first process of a container unless the process handles it.
process.on("SIGTERM", () => process.exit(143));

const given = process.env[REQUEST_VARIABLE];
if (given === undefined) throw new Error(`${REQUEST_VARIABLE} is not set`);
delete process.env[REQUEST_VARIABLE];
const request = JSON.parse(given) as JobRequest;
const mask = maskSecrets(listSecrets(request));

let n = 0;
type Unnumbered<T> = T extends { n: number } ? Omit<T, "n"> : never;
function write(record: Unnumbered<JobRecord>): void {
  process.stdout.write(`${JSON.stringify({ n: n++, ...record })}\n`);
}

/** How long a failed build looks for what the node lacks. */
const CHECK_MS = 10_000;

const end = await buildImage(request, {
  onStage: (stage) => write({ stage }),
  onCommit: (commit) => write({ commit }),
  log: (line) => write({ line: clipLine(mask(line)) }),
}).then(
  (result): JobEnd => ({ result }),
  async (given): Promise<JobEnd> => {
    const error = (await nodeFailure(given)) ?? given;
    const message = clipLine(mask(String((error as Error)?.message ?? error)), 2_000);
    if (!(error instanceof BuildFailure)) return { broken: message };
    return { failure: { stage: error.stage, code: error.code, message } };
  },
);
writeFileSync(PATHS.terminationMessage, toTerminationMessage(end));
write({ end });
process.exit("result" in end ? 0 : 1);

/** Returns the failure of a build that no source could avoid, because the node keeps builds from working. */
async function nodeFailure(error: unknown): Promise<BuildFailure | undefined> {
  if (error instanceof BuildFailure && error.stage !== "build") return undefined;
  const fault = await findNodeFault(AbortSignal.timeout(CHECK_MS)).catch(() => undefined);
  return fault === undefined ? undefined : new BuildFailure("build", "builder_unavailable", fault);
}

/** Leaves out the start command when the message would be too long; the image's label has it too. */
function toTerminationMessage(whole: JobEnd): string {
  const text = JSON.stringify(whole);
  if (Buffer.byteLength(text) <= MESSAGE_BYTES || !("result" in whole)) return text;
  const { command: _, ...result } = whole.result;
  return JSON.stringify({ result });
}

/** Returns what must not appear in any line or message. */
function listSecrets({ source, registry }: JobRequest): string[] {
  const secrets =
    source.kind === "archive" ? [source.url, new URL(source.url).search.slice(1)] : [source.token];
  const auths = Object.values(
    registry.auth === undefined ? {} : ((JSON.parse(registry.auth).auths ?? {}) as object),
  );
  for (const entry of auths as { auth?: string; password?: string }[])
    secrets.push(entry.auth, entry.password);
  return secrets.filter((one): one is string => one !== undefined && one !== "");
}
