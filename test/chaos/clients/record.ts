import type { Access } from "../checks/history.ts";

/**
 * A change requested under one key until its outcome was known. `ids`: the request ids of all tries. `audited` is false
 * where the account's audit log does not list it.
 */
export type Effect = {
  action: string;
  name: string;
  id: string;
  ids: string[];
  service?: string;
  audited: boolean;
};

/** A request that was answered as the client wanted, or not. */
export type Sent = { from: number; to: number; wanted: boolean; what: string };

/** The last acknowledged value, and those whose requests had no answer: they may take effect at any time. */
export type Possible = { last: string | undefined; unknown: Set<string>; underWay: boolean };

export const isPossible = ({ last, unknown }: Possible, value: string) =>
  last === undefined || last === value || unknown.has(value);

/** What a client knows of a member: its role. `removed`: when its removal was acknowledged. */
export type Member = { client: string; userId: string; token: string; role: Possible; removed?: number };

/** An application that a user let in. `ended`: when the end of its access was acknowledged. */
export type App = { clientId: string; accessToken: string; refreshToken: string; ended?: number };

/** A personal token whose user is told that it was made, and once `revoked` that it ended. */
export type Told = { userId: string; tokenId: string; name: string; revoked: boolean; certain: boolean };

/** A user who reads notifications, what of them was marked as read, and what was chosen last. */
export type Reader = {
  userId: string;
  email: string;
  token: string;
  read: Set<string>;
  chosen: Map<string, Possible>;
};

/** What clients observed, for the checks afterwards. */
export type Record = {
  history: Access[];
  effects: Effect[];
  /** Request ids of writes without a key, by outcome: it determines how many audit records each may have. */
  acknowledged: string[];
  refused: string[];
  unknown: string[];
  /** Request ids of one change that may be asked for repeatedly: together they have one audit record. */
  repeated: string[][];
  statuses: Map<number, number>;
  sent: Sent[];
  /** Answers that no fault explains. */
  wrong: string[];
  /** What a deployment ended as, by its id. */
  ended: Map<string, string>;
  members: Member[];
  /** Addresses that were invited, whose invitations were acknowledged. */
  invited: string[];
  apps: App[];
  told: Told[];
  /** Accounts that buy plans. */
  buyers: string[];
};

export const createRecord = (): Record => ({
  history: [],
  effects: [],
  acknowledged: [],
  refused: [],
  unknown: [],
  repeated: [],
  statuses: new Map(),
  sent: [],
  wrong: [],
  ended: new Map(),
  members: [],
  invited: [],
  apps: [],
  told: [],
  buyers: [],
});
