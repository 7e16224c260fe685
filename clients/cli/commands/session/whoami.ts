import { isRefusal } from "../../../typescript/src/errors.ts";
import { command } from "../../command.ts";

const whoami = command({
  name: "whoami",
  summary: "Show who is signed in, and where",
  examples: [
    ["whoami", "the user, the accounts and the roles"],
    ["whoami --json", "for programs"],
  ],
  async run(_input, ctx) {
    const { io, signal } = ctx;
    const { origin, berth, source } = await ctx.session();
    // Only users have a profile: what the browser let in is a machine, of one account.
    const me = await berth.me.get({ signal }).catch((error: unknown) => {
      if (isRefusal(error) && error.status === 403) return undefined;
      throw error;
    });
    const accounts = me?.accounts ?? (await berth.accounts.list({ limit: 100 }, { signal }).all());
    if (io.json) {
      const user = me && { id: me.id, email: me.email, displayName: me.displayName };
      const data = accounts.map(({ id, handle, myRole }) => ({ id, handle, myRole }));
      return io.outJson({ origin, source, ...(user && { user }), accounts: data });
    }
    io.out(origin);
    if (me) io.out(`  ${io.shown(me.displayName)} <${io.shown(me.email)}>`);
    for (const { handle, myRole } of accounts) io.out(`  ${myRole} of ${handle}`);
    if (source !== "login") io.note(`The token is that of ${source}.`);
  },
});

export const commands = [whoami];
