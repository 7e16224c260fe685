import { writeSync } from "node:fs";
import type { UnpackEnd } from "./unpack.ts";
import { unpackHere } from "./unpack-here.ts";

/**
 * The process of `unpackArchive`: reads the archive from stdin, unpacks it into the folder of its first argument
 * and says in one line of JSON how that ended.
 */

const [target = "", options = ""] = process.argv.slice(2);
process.chdir(target);
const end = await unpackHere(process.stdin, ".", JSON.parse(options)).then(
  (unpacked): UnpackEnd => ({ unpacked }),
  ({ code, message, ...error }): UnpackEnd =>
    "stage" in error ? { refused: { code, message } } : { broken: { code, message } },
);
writeSync(1, `${JSON.stringify(end)}\n`);
process.exit();
