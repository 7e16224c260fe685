import { type IncomingHttpHeaders, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP } from "node:net";
import { isPublicAddress, lookupAllowed } from "../../../kit/network/public-address.ts";
import { bearerIn, tokenUrl } from "../registry-auth.ts";

export type RegistryAnswer = { status: number; headers: IncomingHttpHeaders; body: string };

type Asking = {
  accept?: string;
  authorization?: string;
  /** Whether the operator named the registry: others are asked by https and at public addresses alone. */
  trusted: boolean;
  signal: AbortSignal;
};

const MAX_BYTES = 256 * 1024;
const MAX_REDIRECTS = 3;
const REDIRECTS = [301, 302, 303, 307, 308];

/** Asks a registry, with a token if it wants one. Rejects when it, or where it sends to, cannot be reached. */
export async function askRegistry(
  method: "GET" | "HEAD",
  url: URL,
  scope: string,
  asking: Asking,
): Promise<RegistryAnswer> {
  const first = await follow(method, url, asking);
  if (first.status !== 401) return first;
  const realm = tokenUrl(first.headers["www-authenticate"] ?? "", scope);
  if (realm === undefined) return first;
  const token = await send("GET", realm, { ...asking, accept: "application/json" });
  if (token.status !== 200) return first;
  return follow(method, url, { ...asking, authorization: bearerIn(JSON.parse(token.body)) });
}

async function follow(method: string, url: URL, asking: Asking): Promise<RegistryAnswer> {
  let at = url;
  for (let redirects = 0; ; redirects++) {
    const authorization = at.origin === url.origin ? asking.authorization : undefined;
    const answer = await send(method, at, { ...asking, authorization });
    const { location } = answer.headers;
    if (!REDIRECTS.includes(answer.status) || !location || redirects === MAX_REDIRECTS) return answer;
    at = new URL(location, at);
  }
}

function send(method: string, url: URL, asking: Asking): Promise<RegistryAnswer> {
  const { accept, authorization, trusted, signal } = asking;
  return new Promise((done, failed) => {
    if (!trusted) requirePublic(url);
    const headers = {
      "user-agent": "berth",
      ...(accept && { accept }),
      ...(authorization && { authorization }),
    };
    const lookup = trusted ? undefined : lookupAllowed();
    const request = url.protocol === "https:" ? requestHttps : requestHttp;
    const sent = request(url, { method, headers, signal, lookup, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      let length = 0;
      response.on("data", (chunk: Buffer) => {
        length += chunk.length;
        chunks.push(chunk);
        if (length > MAX_BYTES) response.destroy(new Error("The answer is too long"));
      });
      response.on("error", failed);
      response.on("end", () => {
        const body = Buffer.concat(chunks).toString();
        done({ status: response.statusCode!, headers: response.headers, body });
      });
    });
    sent.on("error", failed).end();
  });
}

/** Throws unless a URL may lead to the public internet. What its name leads to is checked at each connection. */
function requirePublic({ protocol, hostname }: URL): void {
  if (protocol !== "https:") throw new Error("It is not asked by https");
  const address = hostname.replace(/^\[|\]$/g, "");
  if (isIP(address) !== 0 && !isPublicAddress(address)) throw new Error("It has no public address");
}
