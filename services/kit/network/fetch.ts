import type { RequestInit } from "undici";

/** Loaded when it is used first: it takes 28 MB, and most processes ask nobody by `fetch`. */
async function load() {
  const { Agent, fetch } = await import("undici");
  // Its own: one that Node.js has installed for all would be used otherwise.
  const dispatcher = new Agent();
  return (input: string | URL, init?: RequestInit) => fetch(input, { ...init, dispatcher });
}

let loading: ReturnType<typeof load> | undefined;

/**
 * `fetch` by the package undici. That of Node.js 24 ends the process, with an error that nobody can catch, when a server
 * closes the connection before a large answer has been read (nodejs/undici#5360).
 */
export const fetch = (async (input: string | URL, init?: RequestInit) => {
  loading ??= load();
  return (await loading)(input, init);
}) as unknown as typeof globalThis.fetch;
