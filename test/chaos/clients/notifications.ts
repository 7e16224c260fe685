import { type Client, isUnknown } from "./client.ts";
import type { Reader, Record, Told } from "./record.ts";
import type { Work } from "./shared.ts";

export type Notification = {
  id: string;
  kind: string;
  metadata: { tokenId?: string };
  readAt?: string;
  createdAt: string;
};
type Page = { data: Notification[] };

const KINDS = ["deploy.ready", "deploy.failed", "member.joined", "deploy.recovered"];
const CHANNELS = ["in_app", "email", "both", "off"];
const FREQUENCIES = ["immediate", "daily", "weekly"];
const GONE = { wanted: [404] };

/** Makes and revokes tokens, of which their user is told by feed and mail; reads, marks as read, and chooses. */
export const notifications =
  (record: Record): Work =>
  async (client, { readers }, random, round) => {
    const reader = readers[Number(client.name.replace(/\D/g, "")) % readers.length]!;
    const { token } = reader;
    const choice = random.next();
    if (choice < 0.35) {
      const name = `${client.name}-${round}`;
      const effect = { action: "token.created", audited: false };
      const made = await client.effect(effect, `token-${round}`, "/me/tokens", { name }, random, { token });
      if (made)
        record.told.push({
          userId: reader.userId,
          tokenId: made.id,
          name,
          revoked: false,
          certain: true,
        });
    } else if (choice < 0.5) await revoke(client, reader, random.of(own(record, reader)));
    else if (choice < 0.7)
      await choose(client, reader, [KINDS, CHANNELS, FREQUENCIES].map(random.of) as Choice);
    else if (choice < 0.9) await markRead(client, reader);
    else await client.send("GET", "/notifications/unread-count", undefined, { token });
  };

const own = (record: Record, { userId }: Reader) =>
  record.told.filter((one) => one.userId === userId && !one.revoked);

async function revoke(client: Client, { token }: Reader, told: Told | undefined): Promise<void> {
  if (!told) return;
  // Before it is asked for: whoever else revokes it is told nothing more.
  told.revoked = true;
  told.certain = false;
  const answer = await client.send("DELETE", `/me/tokens/${told.tokenId}`, undefined, { token, ...GONE });
  if (answer.status === 204) told.certain = true;
}

type Choice = [kind: string, channel: string, frequency: string];

async function choose(client: Client, reader: Reader, [kind, channel, frequency]: Choice): Promise<void> {
  const { token, chosen } = reader;
  const body = { kind, channel, frequency };
  const possible = chosen.get(kind) ?? { last: undefined, unknown: new Set(), underWay: false };
  // Of two choices at once, either may be the last.
  if (possible.underWay) return;
  chosen.set(kind, possible);
  possible.underWay = true;
  const answer = await client.send("PUT", "/me/notification-prefs", body, { token });
  possible.underWay = false;
  if (answer.status === 200) possible.last = `${channel} ${frequency}`;
  else if (isUnknown(answer)) possible.unknown.add(`${channel} ${frequency}`);
}

async function markRead(client: Client, { token, read }: Reader): Promise<void> {
  // What others mark while this page is read may still be unread in it.
  const before = new Set(read);
  const { status, body } = await client.send("GET", "/notifications?unread=true&limit=20", undefined, {
    token,
  });
  if (status !== 200) return;
  const { data } = body as Page;
  for (const { id } of data.filter(({ id }) => before.has(id)))
    client.wrong(`${id} is unread after it was marked as read`);
  const one = data.at(-1);
  if (!one) return;
  const answer = await client.send("POST", `/notifications/${one.id}/read`, {}, { token });
  if (answer.status === 200) read.add(one.id);
}
