import { lookup } from "node:dns";
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { lookupAllowed, lookupByNetwork, NoAllowedAddress } from "../../../kit/network/public-address.ts";
import { addressIn, allowedAddresses } from "../target.ts";
import type { Answer, SendError } from "./outcome.ts";

const TIMEOUT_MS = 15_000;

export type Post = (url: URL, headers: Record<string, string>, body: string) => Promise<Answer>;

/**
 * Returns the function that sends a body by POST. It connects only to addresses that are allowed, whatever a name leads
 * to, and follows no redirect; it returns within 15 s, and reads nothing but the status. `resolve`, `isAllowed` and `ca`
 * are for tests.
 */
export function createPost(options: {
  allowPrivate: boolean;
  resolve?: typeof lookup;
  isAllowed?: (address: string) => boolean;
  ca?: string;
}): Post {
  const { allowPrivate, ca } = options;
  // Names of private networks may be in the hosts file, or short.
  const resolve = options.resolve ?? (allowPrivate ? lookup : lookupByNetwork);
  return (url, headers, body) => {
    const isAllowed = options.isAllowed ?? allowedAddresses(url, allowPrivate);
    const address = addressIn(url);
    if (address !== undefined && !isAllowed(address)) return Promise.resolve({ error: "address_refused" });
    const { promise, resolve: answer } = Promise.withResolvers<Answer>();
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const request = url.protocol === "https:" ? requestHttps : requestHttp;
    const sent = request(
      url,
      {
        method: "POST",
        headers: {
          "content-type": "application/json",
          "content-length": Buffer.byteLength(body),
          "user-agent": "Berth-Webhooks",
          ...headers,
        },
        signal,
        lookup: lookupAllowed(isAllowed, resolve),
        agent: false,
        ca,
      },
      (response) => {
        answer({ status: response.statusCode! });
        response.destroy();
      },
    );
    sent.on("error", (error: NodeJS.ErrnoException) =>
      answer({ error: signal.aborted ? "timeout" : toError(error) }),
    );
    // Also of what is no answer and no error, such as another protocol.
    sent.on("close", () => answer({ error: "connection_failed" }));
    sent.end(body);
    return promise;
  };
}

const NOT_FOUND = ["ENOTFOUND", "ENODATA", "EAI_AGAIN", "ESERVFAIL", "ETIMEOUT"];

function toError(error: NodeJS.ErrnoException): SendError {
  if (error instanceof NoAllowedAddress) return "address_refused";
  const { code = "" } = error;
  if (NOT_FOUND.includes(code)) return "name_not_found";
  return /CERT|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH/.test(code)
    ? "certificate_invalid"
    : "connection_failed";
}
