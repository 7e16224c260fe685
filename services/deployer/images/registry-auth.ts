/** Returns the `Authorization` for a host in a docker configuration; undefined when it has none. */
export function basicAuth(config: string | undefined, host: string): string | undefined {
  if (config === undefined) return undefined;
  const { auths = {} } = JSON.parse(config) as {
    auths?: Record<string, { auth?: string; username?: string; password?: string }>;
  };
  const hostOf = (key: string) => key.replace(/^https?:\/\//, "").split("/")[0];
  const entry = Object.entries(auths).find(([key]) => hostOf(key) === host)?.[1];
  if (!entry) return undefined;
  const pair = entry.auth ?? Buffer.from(`${entry.username}:${entry.password}`).toString("base64");
  return `Basic ${pair}`;
}

/** Returns where a registry's challenge says to ask for a token; undefined when it asks for none. */
export function tokenUrl(challenge: string, scope: string): URL | undefined {
  if (!/^bearer /i.test(challenge)) return undefined;
  const terms = Object.fromEntries(
    [...challenge.matchAll(/\b(\w+)="([^"]*)"/g)].map(([, key, value]) => [key!, value!]),
  );
  if (!URL.canParse(terms.realm ?? "")) return undefined;
  const url = new URL(terms.realm!);
  url.searchParams.set("scope", terms.scope ?? scope);
  if (terms.service) url.searchParams.set("service", terms.service);
  return url;
}

/** Returns the `Authorization` with the token of the answer there. */
export function bearerIn(answer: unknown): string {
  const { token, access_token } = answer as { token?: string; access_token?: string };
  return `Bearer ${token ?? access_token}`;
}
