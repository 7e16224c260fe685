import { useMutation } from "@tanstack/react-query";
import { download } from "../../design/download.ts";
import { Alert } from "../../design/form.tsx";
import { useAccount, useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

/** Saves the statement of a month as the API's table, with all decimals. */
export function DownloadStatement({ month }: { month: string }) {
  const at = useAccountAddress();
  const handle = useAccount()?.handle;
  const save = useMutation({
    gcTime: 0,
    mutationFn: async () =>
      download(`${handle}-${month}.csv`, await berth.statements.csv(at, month), "text/csv"),
  });
  return (
    <>
      <button type="button" aria-disabled={save.isPending} onClick={() => save.mutate()}>
        {texts.billing.statements.csv}
        <span className="unseen"> {month}</span>
      </button>
      <Alert error={save.error} />
    </>
  );
}
