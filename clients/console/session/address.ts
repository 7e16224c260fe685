import { useParams } from "@tanstack/react-router";
import { createContext, useContext } from "react";
import type {
  Account,
  AccountAddress,
  EnvironmentAddress,
  Me,
  ProjectAddress,
  ServiceAddress,
} from "../../typescript/src/index.ts";

type Params = Partial<ServiceAddress>;

const useAddress = () => useParams({ strict: false }) as Params;

/** What the address of this screen names. A screen is only below a route that has these parts. */
export const useAccountAddress = () => useAddress() as AccountAddress;
export const useProjectAddress = () => useAddress() as ProjectAddress;
export const useEnvironmentAddress = () => useAddress() as EnvironmentAddress;
export const useServiceAddress = () => useAddress() as ServiceAddress;

export const MeContext = createContext<Me | undefined>(undefined);

/** The signed-in user, below the frame of all screens. */
export function useMe(): Me {
  const me = useContext(MeContext);
  if (!me) throw new Error("There is no user outside the frame.");
  return me;
}

/** The account that this screen is about, if the user is a member of it. */
export function useAccount(): Account | undefined {
  const { accountId } = useAccountAddress();
  return useMe().accounts.find(({ id }) => id === accountId);
}

/** Whether the user may change things in this account. */
export const useMayEdit = () => {
  const role = useAccount()?.myRole;
  return role === "editor" || role === "owner";
};
