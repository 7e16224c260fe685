import { Berth } from "../../typescript/src/berth.ts";
import { reasonOf, Unreachable } from "../../typescript/src/errors.ts";
import { Failure, refused, usage } from "../failure.ts";
import { type Credential, readCredentials, updateCredentials } from "./credentials.ts";
import { type Observed, observingFetch, type ProxyUse, useProxy } from "./http.ts";
import { ended, refresh } from "./oauth.ts";

/** A signed-in user at one installation. */
export type Session = {
  origin: string;
  berth: Berth;
  /** Where the token comes from, for people. */
  source: "--token" | "BERTH_TOKEN" | "login";
  credential: Credential;
  observed: Observed;
  proxy: ProxyUse;
  /** Returns a token that is valid now. */
  token: () => Promise<string>;
  /** Sends a request that is not one of the API with a valid token. */
  send: typeof fetch;
};

export type Given = {
  url?: string | undefined;
  token?: string | undefined;
  /** The origin that the project file names. */
  linked?: string | undefined;
};

/** How often a request is tried again, each time after a longer pause: two minutes in all. */
const RETRIES = 9;
/** How often before the server has answered anything: a gateway that restarts is back within seconds. */
const FIRST_RETRIES = 5;
/** A token is renewed before it expires: a request must not meet its end. */
const EARLY_MS = 60_000;

/** Returns the origin of a URL: `https://berth.example.com/v1` names the installation too. */
export function originOf(text: string): string {
  const url = parseUrl(text);
  if (!url || !/^https?:$/.test(url.protocol))
    throw usage(
      `${JSON.stringify(text)} is no URL of an installation.`,
      "berth login https://berth.example.com",
    );
  return url.origin;
}

function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}

/**
 * Returns which installation is meant, and the credential for it. A token of the environment is sent only where the user
 * said, never where a project file alone says: whoever wrote that file would get it.
 */
export async function chooseCredential({ url, token, linked }: Given, env = process.env) {
  const saved = await readCredentials();
  const named = url ?? env.BERTH_URL;
  const known = Object.keys(saved.origins);
  const origin = named ? originOf(named) : linked ? originOf(linked) : (saved.current ?? known[0]);
  const given = token ?? env.BERTH_TOKEN;
  const source = token ? ("--token" as const) : ("BERTH_TOKEN" as const);
  if (!origin)
    throw given
      ? usage(`${source} says nothing about where it is valid.`, "export BERTH_URL=https://berth.example.com")
      : refused("You are not signed in.", "berth login https://berth.example.com", "unauthenticated");
  if (given) {
    if (!named && !known.includes(origin))
      throw usage(
        `The project file names ${origin}, which you never signed in to: ${source} is not sent there.`,
        `export BERTH_URL=${origin}`,
      );
    return { origin, source, credential: { kind: "token", token: given } as Credential };
  }
  const credential = saved.origins[origin];
  if (!credential)
    throw refused(`You are not signed in to ${origin}.`, `berth login ${origin}`, "unauthenticated");
  return { origin, source: "login" as const, credential };
}

/** Opens a session. Nothing is sent before a method of its client is called. */
export async function openSession(given: Given, say: (text: string) => void): Promise<Session> {
  const { origin, source, credential } = await chooseCredential(given);
  const observed: Observed = {};
  const proxy = useProxy();
  if (proxy === "ignored")
    say(
      "HTTPS_PROXY is ignored by this Node: since Node 22.21, NODE_USE_ENV_PROXY=1 makes it use the proxy.",
    );
  const tokens = source === "login" ? keptTokens(origin, credential) : fixedToken(credential);
  const send = patiently(withoutStreamsInLine(withRenewal(observingFetch(observed), tokens)), origin, say);
  const berth = new Berth({ baseUrl: origin, token: tokens.current, fetch: send, retries: RETRIES });
  const authorized: typeof fetch = async (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set("authorization", `Bearer ${await tokens.current()}`);
    return withRenewal(observingFetch(observed), tokens)(input, { ...init, headers });
  };
  return { origin, berth, source, credential, observed, proxy, token: tokens.current, send: authorized };
}

type Tokens = { current: () => Promise<string>; renew: (failed: string) => Promise<string | undefined> };

function fixedToken(credential: Credential): Tokens {
  const token = credential.kind === "token" ? credential.token : credential.accessToken;
  return { current: async () => token, renew: async () => undefined };
}

/** Tokens that are renewed, and shared with other processes through the file. */
function keptTokens(origin: string, first: Credential): Tokens {
  let credential = first;
  let renewing: Promise<void> | undefined;
  const renewUnless = async (isGood: (found: Credential) => boolean) => {
    await updateCredentials(async ({ origins }) => {
      const found = origins[origin];
      if (!found) throw ended(origin);
      // Another process was faster.
      credential = found.kind === "oauth" && !isGood(found) ? await refresh(found) : found;
      origins[origin] = credential;
    });
  };
  const shared = async (isGood: (found: Credential) => boolean) => {
    renewing ??= renewUnless(isGood).finally(() => {
      renewing = undefined;
    });
    await renewing;
  };
  const text = () => (credential.kind === "oauth" ? credential.accessToken : credential.token);
  const isFresh = (each: Credential) => each.kind !== "oauth" || each.expiresAt - Date.now() > EARLY_MS;
  return {
    async current() {
      if (!isFresh(credential)) await shared(isFresh);
      return text();
    },
    async renew(failed) {
      if (credential.kind !== "oauth") return undefined;
      // This clock may be wrong: what the server refuses is renewed whatever it says.
      if (text() === failed) await shared((found) => found.kind === "oauth" && found.accessToken !== failed);
      return text();
    },
  };
}

/** Sends a request once more with a new token when the server refuses the token. */
function withRenewal(send: typeof fetch, tokens: Tokens): typeof fetch {
  return async (input, init) => {
    const response = await send(input, init);
    if (response.status !== 401) return response;
    const headers = new Headers(init?.headers);
    const failed = headers.get("authorization")?.replace(/^Bearer /, "") ?? "";
    // Access that has ended is what the answer says already.
    const renewed = await tokens.renew(failed).catch((error: unknown) => {
      if (error instanceof Failure) return undefined;
      throw error;
    });
    if (renewed === undefined || renewed === failed) return response;
    await response.body?.cancel();
    headers.set("authorization", `Bearer ${renewed}`);
    return send(input, { ...init, headers });
  };
}

/** A stream beyond the user's limit is refused at once, where the client would wait: commands ask again and again then. */
function withoutStreamsInLine(send: typeof fetch): typeof fetch {
  return async (input, init) => {
    const response = await send(input, init);
    if (response.status !== 429 || new Headers(init?.headers).get("accept") !== "text/event-stream")
      return response;
    return new Response(response.body, { status: 403, headers: response.headers });
  };
}

/** What no other try changes: the name is unknown, or the address can be that of no server. */
const FINAL = /ENOTFOUND|bad port|ERR_INVALID_URL|certificate|self.signed/i;

/** Says once that the server does not answer, while the client tries again what may succeed. */
function patiently(send: typeof fetch, origin: string, say: (text: string) => void): typeof fetch {
  let failures = 0;
  let answered = false;
  return async (input, init) => {
    try {
      const response = await send(input, init);
      failures = 0;
      answered = true;
      return response;
    } catch (error) {
      const { cause, name } = error as Error & { cause?: NodeJS.ErrnoException };
      const why = `${cause?.code ?? ""} ${cause?.message ?? ""}`;
      failures++;
      if (FINAL.test(why) || (!answered && failures > FIRST_RETRIES))
        throw new Unreachable(`${origin} cannot be reached: ${reasonOf(error)}.`, { cause: error });
      if (failures === 3 && name !== "AbortError") say(`Waiting for ${origin} …`);
      throw error;
    }
  };
}
