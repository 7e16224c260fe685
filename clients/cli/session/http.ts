import { VERSION } from "../version.ts";

export const USER_AGENT = `berth-cli/${VERSION} node/${process.versions.node}`;

/** What requests tell of the server besides their answers. */
export type Observed = {
  /** How far the server's clock is ahead of this one's, in ms; undefined before the first answer. */
  clockAheadMs?: number;
};

const LOOPBACK = "localhost,127.0.0.1,[::1],::1";

/** How requests reach a proxy that the environment names: by Node itself, if it can. */
export type ProxyUse = "none" | "used" | "ignored";

/** Makes requests use the proxy of HTTP_PROXY and HTTPS_PROXY. What runs on this machine is reached without. */
export function useProxy(env: Record<string, string | undefined> = process.env): ProxyUse {
  const proxies = [env.https_proxy, env.HTTPS_PROXY, env.http_proxy, env.HTTP_PROXY];
  if (!proxies.some(Boolean)) return "none";
  // Loaded only here: an import of it takes 15 ms of each start. A Node that cannot do this uses no proxy either.
  const { setGlobalProxyFromEnv } = (process.getBuiltinModule?.("node:http") ?? {}) as {
    setGlobalProxyFromEnv?: (env: Record<string, string | undefined>) => void;
  };
  if (!setGlobalProxyFromEnv) return isOn(env.NODE_USE_ENV_PROXY) ? "used" : "ignored";
  const no = env.no_proxy ?? env.NO_PROXY;
  const noProxy = no ? `${no},${LOOPBACK}` : LOOPBACK;
  setGlobalProxyFromEnv({ ...env, no_proxy: noProxy, NO_PROXY: noProxy });
  return "used";
}

const isOn = (value: string | undefined) => value === "1";

/** Returns a `fetch` that names this program and notes the server's clock. */
export function observingFetch(observed: Observed): typeof fetch {
  return async (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set("user-agent", USER_AGENT);
    const sentAt = Date.now();
    const response = await fetch(input, { ...init, headers });
    const date = Date.parse(response.headers.get("date") ?? "");
    // The header counts whole seconds.
    if (!Number.isNaN(date)) observed.clockAheadMs = date + 500 - (sentAt + Date.now()) / 2;
    return response;
  };
}

/** Returns the server's time in ms, by what was observed. */
export function serverNow({ clockAheadMs = 0 }: Observed): number {
  // Less than this is the header's own inaccuracy, or the way of the answer.
  return Date.now() + (Math.abs(clockAheadMs) > 5_000 ? clockAheadMs : 0);
}
