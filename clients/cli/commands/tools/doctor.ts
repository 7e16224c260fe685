import { stat } from "node:fs/promises";
import { isRefusal } from "../../../typescript/src/errors.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { Failure } from "../../failure.ts";
import { credentialsFile, readCredentials } from "../../session/credentials.ts";
import { discover } from "../../session/oauth.ts";
import { duration } from "../../terminal/format.ts";
import { VERSION } from "../../version.ts";

type Finding = { check: string; ok: boolean; says: string; next?: string };

/** From here on tokens and certificates of other programs begin to fail. */
const SKEW_MS = 60_000;

const doctor = command({
  name: "doctor",
  summary: "Check what a command needs",
  about: [
    "Checks this machine, the sign-in, the project file and the installation, and says what to do about each finding. Exit code 1 if something is wrong.",
  ],
  examples: [["doctor", "when something does not work"]],
  async run(_input, ctx) {
    const { io } = ctx;
    const findings: Finding[] = [];
    const check = async (
      name: string,
      work: () => Promise<Omit<Finding, "check" | "ok"> & { ok?: boolean }>,
    ) => {
      try {
        findings.push({ check: name, ok: true, ...(await work()) });
      } catch (error) {
        const { message, next } = error as Error & { next?: string };
        findings.push({ check: name, ok: false, says: message, ...(next && { next }) });
      }
    };
    await check("berth", async () => ({
      says: `${VERSION} on Node ${process.versions.node}, ${process.platform}`,
    }));
    await check("credentials", credentials);
    await check("project file", async () => {
      const file = await ctx.linkFile();
      return { says: file ?? "none here: berth init NAME, or berth link" };
    });
    await check("installation", () => installation(ctx));
    if (findings.at(-1)!.ok) {
      await check("token", () => token(ctx));
      await check("clock", () => clock(ctx));
      await check("sign-in", () => signIn(ctx));
      if (await ctx.link().catch(() => undefined)) await check("linked service", () => linked(ctx));
    }
    const wrong = findings.filter(({ ok }) => !ok);
    if (io.json) io.outJson({ data: findings, ok: wrong.length === 0 });
    else
      for (const { check: name, ok, says, next } of findings) {
        const mark = ok ? io.style("green", "ok   ") : io.style("red", "wrong");
        io.out(`  ${mark} ${name.padEnd(15)} ${io.shown(says)}`);
        if (next) io.out(`        ${"".padEnd(15)} ${io.style("dim", "Next:")} ${next}`);
      }
    return wrong.length === 0 ? 0 : 1;
  },
});

async function credentials() {
  const file = credentialsFile();
  const about = await stat(file).catch(() => undefined);
  const { origins } = await readCredentials();
  if (!about) return { says: `none: ${file} does not exist` };
  const open = process.platform !== "win32" && (about.mode & 0o077) !== 0;
  const says = `${file}: ${Object.keys(origins).join(", ") || "empty"}`;
  return { says: open ? `${says} (others could read it; its mode is now 0600)` : says };
}

async function installation(ctx: Context) {
  const { origin, berth, proxy } = await ctx.session();
  const began = performance.now();
  // Whatever the answer is, it is Berth's: also one that refuses the token.
  await berth.accounts
    .list({ limit: 1 }, { signal: ctx.signal, retries: 0 })
    .page()
    .catch((error: unknown) => {
      if (!isRefusal(error)) throw error;
    });
  const by = proxy === "used" ? ", with the proxy of the environment" : "";
  return { says: `${origin} answers in ${duration(performance.now() - began)}${by}` };
}

async function token(ctx: Context) {
  const { berth, source, origin } = await ctx.session();
  try {
    const accounts = await berth.accounts.list({ limit: 100 }, { signal: ctx.signal }).all();
    return {
      says: `of ${source}: ${accounts.map(({ handle, myRole }) => `${myRole} of ${handle}`).join(", ")}`,
    };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    throw new Failure(
      "refused",
      error.message,
      source === "login" ? `berth login ${origin}` : `unset ${source}`,
    );
  }
}

async function clock(ctx: Context) {
  const { clockAheadMs = 0 } = (await ctx.session()).observed;
  if (Math.abs(clockAheadMs) < SKEW_MS) return { says: "agrees with the installation's" };
  const way = clockAheadMs > 0 ? "behind" : "ahead of";
  // berth itself goes by the installation's clock.
  return {
    says: `${duration(Math.abs(clockAheadMs))} ${way} the installation's`,
    ok: false,
    next: "set the clock of this machine",
  };
}

async function signIn(ctx: Context) {
  const { origin } = await ctx.session();
  const { server } = await discover(origin, ctx.signal);
  const device = server.device_authorization_endpoint
    ? "also without one"
    : "not without one: the installation is older";
  return { says: `by browser; ${device}` };
}

async function linked(ctx: Context) {
  const at = await ctx.at.service();
  const { name, status } = await (await ctx.berth()).services.get(at, { signal: ctx.signal });
  return { says: `${name} is ${status}` };
}

export const commands = [doctor];
