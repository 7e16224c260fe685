import type { Readable } from "node:stream";

/**
 * Yields the lines of a text, without what ends them. Unlike with `readline` only a line feed does, perhaps after a carriage
 * return: lines may hold all else, such as U+2028. Fails when the stream does, and destroys it when it is not read to its end.
 */
export async function* linesOf(stream: Readable): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of stream.setEncoding("utf8") as AsyncIterable<string>) {
    const parts = (rest + chunk).split("\n");
    rest = parts.pop()!;
    for (const part of parts) yield part.endsWith("\r") ? part.slice(0, -1) : part;
  }
  if (rest !== "") yield rest;
}
