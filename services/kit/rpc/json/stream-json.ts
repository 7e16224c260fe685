import type { IncomingMessage, ServerResponse } from "node:http";
import { create, type DescMethod, isMessage, type Message, type MessageInitShape } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type HandlerContext,
  type Interceptor,
  type StreamRequest,
  type StreamResponse,
  type UnaryRequest,
} from "@connectrpc/connect";
import { errorToJson } from "@connectrpc/connect/protocol-connect";
import { readSingle, streamOf } from "./single-message.ts";
import { UnaryContext, unaryContextOf } from "./unary-context.ts";
import { flush, writeTogether } from "./write-together.ts";

type Options = {
  interceptors: Interceptor[];
  shutdownSignal: AbortSignal;
  maxBytesOf: (method: DescMethod) => number;
  /** Returns the message of a request, undefined for one that is too large. Throws for one that is not valid. */
  parse: (method: DescMethod, json: Buffer | undefined) => Message;
  textOf: (method: DescMethod, message: Message) => string;
};

type Impl = (message: Message, context: HandlerContext) => unknown;
type Known = { method: DescMethod; call: (request: StreamRequest) => Promise<StreamResponse> };

const STREAM_TYPE = "application/connect+json";
/** An envelope begins with flags and the length of its message. */
const HEAD_BYTES = 5;
const END_STREAM = 2;

/**
 * Answers server-streaming RPCs that come as Connect's own JSON over HTTP/1.1, as the gateway sends them: each stream takes
 * a part of the memory that it takes in the library, messages that are ready together are written together, and one that
 * goes to many is made text once. All else is the library's.
 */
export function createStreamJson({ interceptors, shutdownSignal, maxBytesOf, parse, textOf }: Options) {
  const calls = new Map<string, Known>();

  function add(method: DescMethod, impl: Impl): void {
    const handle = async (request: StreamRequest) => {
      const context = unaryContextOf(request as unknown as UnaryRequest);
      const message = impl((await readSingle(request.message)) as Message, context);
      const { responseHeader: header, responseTrailer: trailer } = context;
      return { stream: true as const, service: method.parent, method, header, trailer, message };
    };
    const call = interceptors.reduceRight(
      (next, one) => one(next),
      handle as unknown as ReturnType<Interceptor>,
    );
    calls.set(`/${method.parent.typeName}/${method.name}`, {
      method,
      call: call as unknown as Known["call"],
    });
  }

  async function answer(
    { method, call }: Known,
    req: IncomingMessage,
    res: ServerResponse,
    body: Buffer | undefined,
  ) {
    const context = new UnaryContext(method as UnaryContext["method"], req, res, shutdownSignal);
    const { service, url, values: contextValues, requestHeader: header, signal } = context;
    const about = {
      stream: true,
      requestMethod: "POST",
      service,
      method,
      url,
      header,
      contextValues,
      signal,
    };
    let end: object = {};
    try {
      const message = streamOf(parse(method, messageIn(body)));
      const response = await call({ ...about, message } as unknown as StreamRequest);
      for await (const value of response.message) {
        const sent = isMessage(value)
          ? value
          : create(method.output, value as MessageInitShape<typeof method.output>);
        if (!write(res, 0, textOf(method, sent))) await drained(res);
        if (res.destroyed) break;
      }
    } catch (thrown) {
      end = { error: errorToJson(ConnectError.from(thrown), undefined) };
    } finally {
      context.end();
    }
    if (res.destroyed) return;
    write(res, END_STREAM, JSON.stringify(end));
    flush(res);
    res.end();
  }

  return {
    add,
    /** Answers a request, or returns false when it is the library's. */
    answer(req: IncomingMessage, res: ServerResponse): boolean {
      const { headers } = req;
      const found = req.method === "POST" && headers["content-type"] === STREAM_TYPE && calls.get(req.url!);
      const isPlain =
        headers["connect-content-encoding"] === undefined && headers["connect-timeout-ms"] === undefined;
      if (!found || !isPlain) return false;
      const most = maxBytesOf(found.method) + HEAD_BYTES;
      const chunks: Buffer[] = [];
      let size = 0;
      req.on("data", (chunk: Buffer) => {
        size += chunk.length;
        if (size <= most) chunks.push(chunk);
      });
      req.on("end", () => {
        const body = size > most ? undefined : Buffer.concat(chunks);
        answer(found, req, res, body).catch((error: Error) => res.destroy(error));
      });
      // The client is gone.
      req.on("error", () => {});
      return true;
    },
  };
}

/** Returns the one message of a request. Throws for a body that is not one uncompressed envelope. */
function messageIn(body: Buffer | undefined): Buffer | undefined {
  if (!body) return undefined;
  if (body.length < HEAD_BYTES || body[0] !== 0 || body.readUInt32BE(1) !== body.length - HEAD_BYTES)
    throw new ConnectError("the request must be exactly one message", Code.InvalidArgument);
  return body.subarray(HEAD_BYTES);
}

/** Writes an envelope. Returns false when the connection is full. */
function write(res: ServerResponse, flags: number, text: string): boolean {
  if (!res.headersSent) res.writeHead(200, { "content-type": STREAM_TYPE });
  const length = Buffer.byteLength(text);
  const envelope = Buffer.allocUnsafe(HEAD_BYTES + length);
  envelope[0] = flags;
  envelope.writeUInt32BE(length, 1);
  envelope.write(text, HEAD_BYTES);
  return writeTogether(res, envelope);
}

function drained(res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      res.off("drain", end).off("close", end);
      resolve();
    };
    if (res.destroyed) resolve();
    else res.on("drain", end).on("close", end);
  });
}
