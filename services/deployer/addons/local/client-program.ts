import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { programFailure } from "../program-failure.ts";

/** A program that reads or writes the data of an addon. Its environment holds what its arguments must not: they are seen by all. */
export type ClientProgram = {
  file: string;
  args: string[];
  env: Record<string, string>;
  signal: AbortSignal;
};

const KEPT_BYTES = 4_096;

/** Yields what a program writes. Throws when it fails, also after all of that: nothing counts before the end. */
export async function* outputOf(program: ClientProgram): AsyncGenerator<Buffer> {
  const { child, ended, failure } = begin(program);
  try {
    child.stdin.end();
    yield* child.stdout as AsyncIterable<Buffer>;
    const code = await ended;
    if (code !== 0) throw failure(code);
  } finally {
    child.kill("SIGKILL");
  }
}

/** Has a program read `input` to its end. Throws when either fails. */
export async function feed(program: ClientProgram, input: Readable): Promise<void> {
  const { child, ended, failure } = begin(program);
  child.stdout.resume();
  try {
    const fed = pipeline(input, child.stdin).then(
      () => undefined,
      (error) => error,
    );
    const code = await ended;
    const broken = await fed;
    // First: a program that has failed reads no more, and why it did says more than that.
    if (code !== 0) throw failure(code, !broken);
    if (broken) throw broken;
  } finally {
    child.kill("SIGKILL");
  }
}

function begin({ file, args, env, signal }: ClientProgram) {
  // English, whatever the machine speaks: some of its messages are recognised.
  const child = spawn(file, args, { env: { ...env, LC_ALL: "C" }, signal, killSignal: "SIGKILL" });
  let errors = "";
  child.stderr.on("data", (part: Buffer) => {
    errors = (errors + part.toString()).slice(0, KEPT_BYTES);
  });
  const ended = once(child, "close").then(([code]) => {
    signal.throwIfAborted();
    return code as number | null;
  });
  // Whoever reads the output looks at it later.
  ended.catch(() => {});
  const failure = (code: number | null, whole?: boolean) => programFailure(errors, code, whole);
  return { child, ended, failure };
}
