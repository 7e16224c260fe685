import type { Notification } from "../clients/notifications.ts";
import { isPossible, type Reader } from "../clients/record.ts";
import type { Check, Checking } from "./checking.ts";

export const membersAsAcknowledged: Check = {
  name: "members as the last acknowledged change said",
  async find({ shared, record, listAll }) {
    const members = await listAll<{ userId: string; role: string }>(`${shared.account}/members`);
    const roles = new Map(members.map(({ userId, role }) => [userId, role]));
    return record.members.flatMap(({ userId, role: possible, removed }) => {
      const role = roles.get(userId) ?? "none";
      const holds = removed === undefined ? isPossible(possible, role) : role === "none";
      return holds ? [] : [`${userId} is ${role}, not ${removed === undefined ? possible.last : "removed"}`];
    });
  },
};

export const toldOnce: Check = {
  name: "feeds tell each event once",
  find: (checking) =>
    checking.until(async () => {
      const found = await Promise.all(checking.shared.readers.map((reader) => lookAtFeed(checking, reader)));
      return found.flat();
    }),
};

async function lookAtFeed({ record, listAll }: Checking, reader: Reader): Promise<string[]> {
  const feed = await listAll<Notification>("/notifications", reader.token);
  const about = Map.groupBy(feed, ({ kind, metadata }) => `${kind} ${metadata.tokenId}`);
  const exceptions: string[] = [];
  const expectOne = (kind: string, tokenId: string, least: number) => {
    const count = about.get(`${kind} ${tokenId}`)?.length ?? 0;
    if (count < least || count > 1) exceptions.push(`${kind} of ${tokenId} was told ${count} times`);
  };
  for (const { userId, tokenId, revoked, certain } of record.told) {
    if (userId !== reader.userId) continue;
    expectOne("security.token_created", tokenId, 1);
    if (revoked) expectOne("security.token_revoked", tokenId, certain ? 1 : 0);
  }
  for (const id of reader.read)
    if (!feed.find((one) => one.id === id)?.readAt)
      exceptions.push(`${id} is unread after it was marked as read`);
  return exceptions;
}

export const chosenHolds: Check = {
  name: "preferences as the last acknowledged change said",
  async find({ shared, get }) {
    const exceptions: string[] = [];
    for (const { userId, token, chosen } of shared.readers) {
      type Preference = { kind: string; channel: string; frequency: string };
      const kept = await get<Preference[]>("/me/notification-prefs", token);
      for (const [kind, possible] of chosen) {
        const { channel, frequency } = kept.find((one) => one.kind === kind)!;
        if (!isPossible(possible, `${channel} ${frequency}`))
          exceptions.push(`${kind} of ${userId} is ${channel} ${frequency}, not ${possible.last}`);
      }
    }
    return exceptions;
  },
};

export const endedStaysEnded: Check = {
  name: "access that was ended stays refused",
  async find({ shared, record, client, get }) {
    const exceptions: string[] = [];
    const grants = await get<{ clientId: string }[]>("/me/mcp-grants");
    for (const { clientId, accessToken, refreshToken } of record.apps) {
      if (grants.some((one) => one.clientId === clientId)) exceptions.push(`${clientId} is listed`);
      const used = await client.send("GET", `${shared.account}/projects`, undefined, {
        token: accessToken,
        wanted: [401],
      });
      if (used.status !== 401) exceptions.push(`a token of ${clientId} is answered ${used.status}`);
      const form = { grant_type: "refresh_token", client_id: clientId, refresh_token: refreshToken };
      const body = new URLSearchParams(form);
      const refreshed = await fetch(`${shared.origin}/oauth2/token`, { method: "POST", body });
      if (refreshed.status === 200) exceptions.push(`${clientId} got a new token`);
    }
    return exceptions;
  },
};
