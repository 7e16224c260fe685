import type { ReactNode } from "react";
import { Empty } from "../../design/state.tsx";
import { useAccount } from "../../session/address.ts";
import { texts } from "../../texts.ts";

/** Webhooks are for owners: they send out of the account what only owners see. */
export function OwnersOnly({ children }: { children: ReactNode }) {
  if (useAccount()?.myRole === "owner") return children;
  return (
    <Empty isScreen title={texts.webhooks.ownersOnly}>
      <p>{texts.webhooks.ownersOnlyHint}</p>
    </Empty>
  );
}
