import { setTimeout as delay } from "node:timers/promises";
import { basicAuth, bearerIn, tokenUrl } from "../../../services/deployer/images/registry-auth.ts";

const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?$/;
const REGISTRY = /^(?<host>(?:[a-z0-9.-]+|\[[0-9a-f:]+\])(?::\d+)?)(?<path>(?:\/[a-z0-9._-]+)*)$/;
const TIMEOUT_MS = 600_000;
const ATTEMPTS = 5;

/** A body that can be sent again: each call makes a new one. */
type Body = () => NonNullable<RequestInit["body"]>;
type Sending = { headers?: Record<string, string>; body?: Body };

/** Logins by the names that docker's configuration file has. */
export type Credentials = { config?: string; user?: string; password?: string };

export class RegistryRefusal extends Error {
  override name = "RegistryRefusal";
}

/** Splits `ghcr.io/you` into host and path. Throws for anything else. */
export function parseRegistry(text: string): { host: string; path: string } {
  const { host, path } = REGISTRY.exec(text)?.groups ?? {};
  if (host === undefined || path === undefined)
    throw new Error(`--push: name a registry such as ghcr.io/you or 127.0.0.1:5000, not "${text}".`);
  return { host, path: path.slice(1) };
}

/**
 * Returns a client of a registry: by https, or by http on this machine. A request is repeated when the registry cannot
 * be reached, or answers 429 or 5xx. `pauseMs` doubles after each attempt.
 */
export function openRegistry(host: string, credentials: Credentials, pauseMs = 500) {
  const origin = `${LOOPBACK.test(host) ? "http" : "https"}://${host}`;
  const { config, user, password } = credentials;
  const basic =
    user !== undefined && password !== undefined
      ? `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`
      : basicAuth(config, host);
  const tokens = new Map<string, string>();

  /** Sends a request until it is answered for good. A status that is not in `allowed` is an error. */
  async function send(
    method: string,
    path: string,
    repository: string,
    allowed: number[],
    given: Sending = {},
  ) {
    const url = new URL(path, origin);
    for (let attempt = 1; ; attempt++) {
      const answer = await once(method, url, repository, given).catch((error: Error) => error);
      const passing =
        answer instanceof Error
          ? !(answer instanceof RegistryRefusal)
          : answer.status === 429 || answer.status >= 500;
      if (!(answer instanceof Error) && (answer.ok || allowed.includes(answer.status))) return answer;
      if (!(answer instanceof Error)) await answer.body?.cancel();
      if (passing && attempt < ATTEMPTS) {
        await delay(pauseMs * 2 ** (attempt - 1));
        continue;
      }
      const said =
        answer instanceof Error ? reasonOf(answer) : `it answers ${answer.status}${hintOf(answer.status)}`;
      throw new RegistryRefusal(`${method} ${url.origin}${url.pathname}: ${said}`);
    }
  }

  async function once(method: string, url: URL, repository: string, given: Sending): Promise<Response> {
    // A registry may send uploads to another host, which gets no login.
    if (url.host !== host) return request(method, url, undefined, given);
    const answer = await request(method, url, tokens.get(repository) ?? basic, given);
    const challenge = answer.headers.get("www-authenticate") ?? "";
    const at = answer.status === 401 && tokenUrl(challenge, `repository:${repository}:pull,push`);
    if (!at) return answer;
    await answer.body?.cancel();
    if (at.protocol !== "https:" && !LOOPBACK.test(at.host))
      throw new RegistryRefusal(`${host} asks for the login at ${at.origin}, which is not https`);
    const token = await request("GET", at, basic, {});
    if (!token.ok) {
      await token.body?.cancel();
      if (token.status >= 500) return token;
      throw new RegistryRefusal(`${at.origin} answers ${token.status}${hintOf(token.status)}`);
    }
    tokens.set(repository, bearerIn(await token.json()));
    return request(method, url, tokens.get(repository), given);
  }

  function request(method: string, url: URL, authorization: string | undefined, { headers, body }: Sending) {
    return fetch(url, {
      method,
      headers: { "user-agent": "berth", ...headers, ...(authorization && { authorization }) },
      ...(body && { body: body(), duplex: "half" }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    } as RequestInit);
  }

  return { origin, send };
}

export type Registry = ReturnType<typeof openRegistry>;

function reasonOf(error: Error): string {
  const cause = error.cause instanceof Error ? error.cause.message : "";
  return cause || error.message;
}

const hintOf = (status: number) =>
  status === 401 || status === 403
    ? ". Set REGISTRY_USER and REGISTRY_PASSWORD, or log in with docker, as someone who may push"
    : "";
