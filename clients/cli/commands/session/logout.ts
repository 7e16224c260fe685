import { command } from "../../command.ts";
import { refused } from "../../failure.ts";
import { type Credential, readCredentials, updateCredentials } from "../../session/credentials.ts";
import { useProxy } from "../../session/http.ts";
import { revoke } from "../../session/oauth.ts";
import { originOf } from "../../session/session.ts";

const logout = command({
  name: "logout",
  summary: "Forget the sign-in, and end the access",
  args: "[URL]",
  arity: [0, 1],
  about: [
    "Access that the browser gave ends at the installation too. A token that you typed is only forgotten: other programs may use it.",
  ],
  examples: [
    ["logout", "from the installation that is used here"],
    ["logout https://berth.example.com", "from this one"],
    ["logout --all", "from all"],
  ],
  options: { all: { kind: "flag", about: "From all installations" } },
  async run({ args: [url], options: { all } }, ctx) {
    const { io, common } = ctx;
    const { origins, current } = await readCredentials();
    const named =
      url ??
      common.url ??
      process.env.BERTH_URL ??
      (await ctx.link())?.origin ??
      current ??
      Object.keys(origins)[0];
    const wanted = all ? Object.keys(origins) : named ? [originOf(named)] : [];
    const known = wanted.filter((origin) => origins[origin]);
    if (known.length === 0 && !all)
      throw refused(`You are not signed in${named ? ` to ${named}` : ""}.`, "berth login");
    useProxy();
    const results: { origin: string; ended: boolean }[] = [];
    for (const origin of known) {
      // Forgotten first: whatever happens then, it is not used here again.
      const credential = await updateCredentials((credentials): Credential | undefined => {
        const found = credentials.origins[origin];
        delete credentials.origins[origin];
        if (credentials.current === origin) delete credentials.current;
        return found;
      });
      const ended = credential?.kind === "oauth" && (await revoke(credential));
      results.push({ origin, ended });
      if (io.json) continue;
      io.note(`Signed out of ${origin}.`);
      if (credential?.kind === "oauth" && !ended)
        io.note(
          `It did not answer: the access ends there by itself, or at ${origin}/connected-applications.`,
        );
    }
    if (io.json) io.outJson({ data: results });
  },
});

export const commands = [logout];
