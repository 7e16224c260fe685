import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** An example of a request and its response. The response of a stream is one of its messages. */
export type Example = { request?: object; response?: object };

/** The examples of all RPCs, by `Service.Method`. */
export type Examples = Map<string, Example>;

/** Reads the examples of a folder: one file per service, one entry per RPC. */
export function readExamples(dir: string): Examples {
  const examples: Examples = new Map();
  for (const file of readdirSync(dir)) {
    const rpcs = JSON.parse(readFileSync(join(dir, file), "utf8")) as Record<string, Example>;
    for (const [name, example] of Object.entries(rpcs)) examples.set(`${serviceOf(file)}.${name}`, example);
  }
  return examples;
}

/** `account.json` → `AccountService`. */
const serviceOf = (file: string) => `${file[0]!.toUpperCase()}${file.slice(1, -".json".length)}Service`;
