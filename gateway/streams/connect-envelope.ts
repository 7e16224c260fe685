/** One message of a Connect stream; `end` is the last one and carries the error, if there is one. */
export type Envelope = { end: boolean; json: Buffer };

const HEAD = 5;
const END_STREAM = 2;
const MAX_BYTES = 8 * 1024 * 1024;

/** An envelope around a request message. */
export function enclosed(message: Buffer | string): Buffer {
  const json = Buffer.from(message);
  const head = Buffer.alloc(HEAD);
  head.writeUInt32BE(json.length, 1);
  return Buffer.concat([head, json]);
}

/** Cuts the bytes of an uncompressed Connect stream into its envelopes, however they are divided. */
export function splitter(): (chunk: Buffer) => Envelope[] {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    const found: Envelope[] = [];
    let bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
    while (bytes.length >= HEAD) {
      const length = bytes.readUInt32BE(1);
      if (length > MAX_BYTES) throw new Error("a message of a stream is too large");
      if (bytes.length < HEAD + length) break;
      found.push({ end: (bytes[0]! & END_STREAM) !== 0, json: bytes.subarray(HEAD, HEAD + length) });
      bytes = bytes.subarray(HEAD + length);
    }
    rest = bytes;
    return found;
  };
}
