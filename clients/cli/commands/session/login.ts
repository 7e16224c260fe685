import { readFile } from "node:fs/promises";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { refused, usage } from "../../failure.ts";
import { hasBrowser, openBrowser } from "../../session/browser.ts";
import { type Credential, readCredentials, updateCredentials } from "../../session/credentials.ts";
import { useProxy } from "../../session/http.ts";
import { discover, revoke } from "../../session/oauth.ts";
import { openSession, originOf } from "../../session/session.ts";
import { clean } from "../../terminal/clean.ts";
import { readStdin } from "../../terminal/prompt.ts";

const login = command({
  name: "login",
  summary: "Sign in to an installation",
  args: "[URL]",
  arity: [0, 1],
  about: [
    "Opens the browser, in which you choose the account and whether berth may make changes. On a machine without a browser, it shows a code that you type in a browser on any other machine.",
    "Programs need no login: BERTH_TOKEN and BERTH_URL are enough, and come before what login has stored.",
  ],
  examples: [
    ["login https://berth.example.com", "by the browser"],
    ["login --device", "by a browser on another machine"],
    ["login --local .berth/local.json", "to the platform that npm start runs"],
  ],
  options: {
    device: { kind: "flag", about: "Show a code to type in a browser on another machine" },
    local: {
      kind: "text",
      value: "FILE",
      about: "Take address and token from the file that `npm start` writes",
    },
    "client-id": { kind: "text", value: "ID", about: "OAuth client to use, instead of registering one" },
  },
  async run({ args: [url], options }, ctx) {
    const { origin, credential } = await signIn(url, options, ctx);
    const { protocol, hostname } = new URL(origin);
    if (protocol === "http:" && !/^(localhost|127\.\d+\.\d+\.\d+|\[::1\]|.*\.localhost)$/.test(hostname))
      ctx.io.note(`${origin} has no TLS: others on the network can read the token.`);
    const former = (await readCredentials()).origins[origin];
    await updateCredentials((credentials) => {
      credentials.origins[origin] = credential;
      credentials.current = origin;
    });
    // The access of the sign-in before would stay listed, and nobody would use it.
    if (former?.kind === "oauth") await revoke(former);
    await tell(origin, credential, ctx);
  },
});

type Ways = { device: boolean; local: string | undefined; "client-id": string | undefined };

async function signIn(url: string | undefined, options: Ways, ctx: Context) {
  const { common, signal, io } = ctx;
  if (options.local) return fromLocalFile(options.local, signal);
  const saved = await readCredentials();
  const named = url ?? common.url ?? process.env.BERTH_URL ?? (await ctx.link())?.origin ?? saved.current;
  if (!named) throw usage("Which installation?", "berth login https://berth.example.com");
  const origin = originOf(named);
  if (common.token) {
    const token = common.token === "-" ? (await readStdin()).trim() : common.token;
    if (!token) throw usage("The token is empty.", "berth login --token - < FILE");
    const credential: Credential = { kind: "token", token };
    await check(origin, token, signal);
    return { origin, credential };
  }
  useProxy();
  const provider = await discover(origin, signal);
  const clientId = options["client-id"];
  const byDevice = options.device || (!hasBrowser() && provider.server.device_authorization_endpoint);
  if (byDevice) {
    const { signInByDevice } = await import("../../session/device.ts");
    const credential = await signInByDevice(provider, {
      clientId,
      signal,
      show: ({ verification_uri: uri, user_code: code, expires_in: seconds }) => {
        io.note(
          `  Open  ${io.styleErr("bold", clean(uri))}  in a browser, on any machine, and type this code:`,
        );
        io.note("");
        io.note(`  ${io.styleErr("bold", clean(code))}`);
        io.note("");
        io.note(
          `  It is valid for ${Math.round(seconds / 60)} minutes. Never type a code that somebody sends you.`,
        );
      },
    });
    return { origin, credential };
  }
  const { signInByLoopback } = await import("../../session/loopback.ts");
  const credential = await signInByLoopback(provider, {
    clientId,
    signal,
    open: (address) => {
      io.note(`  Open in a browser on this machine: ${address}`);
      if (hasBrowser()) openBrowser(address);
    },
  });
  return { origin, credential };
}

async function fromLocalFile(
  file: string,
  signal: AbortSignal,
): Promise<{ origin: string; credential: Credential }> {
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) throw refused(`${file} does not exist: the platform does not run.`, "npm start");
  try {
    const { origin, ownerToken } = JSON.parse(text) as { origin: string; ownerToken: string };
    if (typeof ownerToken === "string") {
      const credential: Credential = { kind: "token", token: ownerToken };
      await check(originOf(origin), ownerToken, signal);
      return { origin: originOf(origin), credential };
    }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw refused(`${file} is not what npm start writes.`, "berth login --local .berth/local.json");
}

/** Throws unless the installation accepts the token: what is stored works. */
async function check(origin: string, token: string, signal: AbortSignal): Promise<void> {
  const { berth } = await openSession({ url: origin, token }, () => {});
  await berth.accounts.list({ limit: 1 }, { signal }).page();
}

async function tell(origin: string, credential: Credential, { io, signal }: Context): Promise<void> {
  const token = credential.kind === "token" ? credential.token : credential.accessToken;
  const { berth } = await openSession({ url: origin, token }, io.note);
  const accounts = await berth.accounts.list({ limit: 100 }, { signal }).all();
  if (io.json)
    return io.outJson({
      origin,
      accounts: accounts.map(({ id, handle, myRole }) => ({ id, handle, myRole })),
    });
  for (const { handle, myRole } of accounts)
    io.note(`Signed in to ${origin} as ${myRole} of the account ${io.styleErr("bold", handle)}.`);
  if (accounts.every(({ myRole }) => myRole === "reader"))
    io.note("You can only read. To deploy, sign in again and choose that berth may make changes.");
}

export const commands = [login];
