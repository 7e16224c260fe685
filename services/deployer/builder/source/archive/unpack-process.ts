import { writeSync } from "node:fs";
import type { UnpackOutcome } from "./unpack.ts";
import { unpackHere } from "./unpack-here.ts";

/**
 * The process of `unpackArchive`: reads the archive from stdin, unpacks it into the folder of its first argument and
 * writes the outcome as one line of JSON.
 */

const [target = "", options = ""] = process.argv.slice(2);
process.chdir(target);
const outcome = await unpackHere(process.stdin, ".", JSON.parse(options)).then(
  (unpacked): UnpackOutcome => ({ unpacked }),
  ({ code, message, ...error }): UnpackOutcome =>
    "stage" in error ? { failure: { code, message } } : { error: { code, message } },
);
writeSync(1, `${JSON.stringify(outcome)}\n`);
process.exit();
