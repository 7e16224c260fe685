/** One message of an uncompressed Connect stream; `end` marks the last one, which carries the error if any. */
export type Envelope = { end: boolean; json: Buffer };

const HEAD_BYTES = 5;
const END_STREAM = 2;
const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;

/** Returns a request message in an envelope. */
export function encodeEnvelope(message: Buffer | string): Buffer {
  const json = Buffer.from(message);
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32BE(json.length, 1);
  return Buffer.concat([head, json]);
}

/** Returns a function that takes a stream's bytes, in any pieces, and returns the envelopes that they complete. */
export function createEnvelopeDecoder(): (chunk: Buffer) => Envelope[] {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    const found: Envelope[] = [];
    let bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
    while (bytes.length >= HEAD_BYTES) {
      const length = bytes.readUInt32BE(1);
      if (length > MAX_MESSAGE_BYTES) throw new Error("a message of a stream is larger than 8 MiB");
      if (bytes.length < HEAD_BYTES + length) break;
      found.push({
        end: (bytes[0]! & END_STREAM) !== 0,
        json: bytes.subarray(HEAD_BYTES, HEAD_BYTES + length),
      });
      bytes = bytes.subarray(HEAD_BYTES + length);
    }
    // A copy: what was read keeps the whole of its memory as long as any part of it.
    rest = Buffer.from(bytes);
    return found;
  };
}
