import { useQuery } from "@tanstack/react-query";
import type { AccountAddress } from "../../typescript/src/index.ts";
import { berth } from "../session/api.ts";

/** The names of users by their ids. */
export type Names = Map<string, string>;

/** The names of so many members are shown; of others the id. */
const MOST_MEMBERS = 500;

/** The names of an account's members, as far as they are known yet. */
export function useNames({ accountId }: AccountAddress): Names {
  const members = useQuery({
    queryKey: ["names", accountId],
    queryFn: () => berth.members.list({ accountId }, { limit: 100 }).all(MOST_MEMBERS),
  });
  return new Map(members.data?.map(({ userId, displayName }) => [userId, displayName]));
}
