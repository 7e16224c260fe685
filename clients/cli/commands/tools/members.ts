import type { Member } from "../../../typescript/src/generated/types.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { YES } from "../../description.ts";
import { refused } from "../../failure.ts";
import { confirm } from "../../terminal/prompt.ts";
import { printTable } from "../../terminal/table.ts";

const ROLES = ["reader", "editor", "owner"] as const;
type Role = (typeof ROLES)[number];

const list = command({
  name: "members",
  summary: "List the members of the account",
  about: ["Only owners see e-mail addresses."],
  examples: [["members", "names and roles"]],
  async run(_input, ctx) {
    const { io, signal } = ctx;
    const { accountId } = await ctx.at.account();
    const data = await (await ctx.berth()).members.list({ accountId }, { limit: 100 }, { signal }).all();
    if (io.json) return io.outJson({ data });
    const rows = data.map((each) => [
      io.shown(each.displayName),
      each.role,
      io.shown(each.email ?? ""),
      each.userId,
    ]);
    printTable(io, ["NAME", "ROLE", "E-MAIL", "ID"], rows);
    return undefined;
  },
});

const invite = command({
  name: "members invite",
  summary: "Invite someone by e-mail address",
  args: "E-MAIL",
  arity: [1, 1],
  about: ["Nobody becomes a member without accepting."],
  examples: [["members invite ada@example.com --role editor", "as editor"]],
  options: {
    role: {
      kind: "text",
      value: "ROLE",
      about: "reader, editor or owner; reader by default",
      choices: ROLES,
    },
  },
  async run({ args: [email], options }, ctx) {
    const { io, signal } = ctx;
    const { accountId, name } = await ctx.at.account();
    const role = (options.role as Role | undefined) ?? "reader";
    const invitation = await (await ctx.berth()).members.invite(
      { accountId },
      { email: email!, role },
      { signal },
    );
    if (io.json) return io.outJson(invitation);
    io.note(`  Invited ${invitation.email} as ${invitation.role} of ${name}.`);
    // Only an installation without mail answers with it: it has to be passed on.
    if (invitation.link) io.out(invitation.link);
    return undefined;
  },
});

const role = command({
  name: "members role",
  summary: "Change the role of a member",
  args: "MEMBER ROLE",
  arity: [2, 2],
  examples: [["members role ada@example.com owner", "make Ada an owner"]],
  async run({ args: [wanted, role] }, ctx) {
    const { io, signal } = ctx;
    const { accountId } = await ctx.at.account();
    const { userId, displayName } = await memberOf(ctx, accountId, wanted!);
    const body = { role: role as Role };
    const member = await (await ctx.berth()).members.update({ accountId }, userId, body, { signal });
    if (io.json) io.outJson(member);
    else io.note(`  ${displayName} is ${member.role}.`);
  },
});

const remove = command({
  name: "members remove",
  summary: "Remove a member",
  args: "MEMBER",
  arity: [1, 1],
  examples: [["members remove ada@example.com", "asks first"]],
  options: { yes: YES },
  async run({ args: [wanted], options: { yes } }, ctx) {
    const { io, signal } = ctx;
    const { accountId, name } = await ctx.at.account();
    const { userId, displayName } = await memberOf(ctx, accountId, wanted!);
    await confirm(io, `Remove ${displayName} from ${name}?`, yes, `berth members remove ${wanted} --yes`);
    await (await ctx.berth()).members.remove({ accountId }, userId, { signal });
    if (io.json) io.outJson({ removed: userId });
    else io.note(`  ${displayName} is no longer a member of ${name}.`);
  },
});

/** Finds a member by e-mail address, id, or a name that only one has. */
async function memberOf(ctx: Context, accountId: string, wanted: string): Promise<Member> {
  const berth = await ctx.berth();
  const all = await berth.members.list({ accountId }, { limit: 100 }, { signal: ctx.signal }).all();
  const exact = all.find(({ userId, email }) => userId === wanted || email === wanted);
  const named = all.filter(({ displayName }) => displayName === wanted);
  if (exact) return exact;
  if (named.length === 1) return named[0]!;
  throw refused(
    named.length > 1 ? `${named.length} members are called ${wanted}.` : `There is no member ${wanted}.`,
    "berth members",
    "not_found",
  );
}

export const commands = [list, invite, role, remove];
