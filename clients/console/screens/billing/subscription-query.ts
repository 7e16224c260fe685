import { useQuery } from "@tanstack/react-query";
import { isRefusal } from "../../../typescript/src/index.ts";
import { queries } from "../../live/queries.ts";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";

/** The key of something that was read of an account's billing. */
export const billingKey = (accountId: string, ...of: string[]) => ["billing", accountId, ...of];

/** Of what a checkout would charge. A notification does not have it read again: there is a subscription by then. */
export const checkoutKey = (accountId: string, ...of: string[]) => ["checkout-preview", accountId, ...of];

/** Returns the function that has everything read again, after a change. */
export function useRefresh() {
  const { accountId } = useAccountAddress();
  return async () => {
    void queries.invalidateQueries({ queryKey: checkoutKey(accountId) });
    await queries.invalidateQueries({ queryKey: billingKey(accountId) });
  };
}

/** The account's subscription; `null` without one. */
export function useSubscription() {
  const at = useAccountAddress();
  return useQuery({
    queryKey: billingKey(at.accountId, "subscription"),
    queryFn: () =>
      berth.subscription.get(at).catch((error: unknown) => {
        if (isRefusal(error, "subscription_not_found")) return null;
        throw error;
      }),
  });
}

/** The account with its plan and limits, which all its members may read. */
export function usePlanOfAccount() {
  const at = useAccountAddress();
  return useQuery({
    queryKey: billingKey(at.accountId, "account"),
    queryFn: () => berth.accounts.get(at),
  });
}
