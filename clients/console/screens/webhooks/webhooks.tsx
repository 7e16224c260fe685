import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { Webhook } from "../../../typescript/src/index.ts";
import { Ago, Empty, Failure, Loading } from "../../design/state.tsx";
import { Table } from "../../design/table.tsx";
import { queries } from "../../live/queries.ts";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { OwnersOnly } from "./owners-only.tsx";
import { Secret } from "./secret.tsx";
import { State } from "./state.tsx";
import { WebhookDialog, type WebhookFields } from "./webhook-dialog.tsx";

/** An account has at most as many. */
const MOST = 10;

/** Where what happens in the account is sent. */
export function Webhooks() {
  return (
    <OwnersOnly>
      <List />
    </OwnersOnly>
  );
}

function List() {
  const at = useAccountAddress();
  const [isCreating, setIsCreating] = useState(false);
  const webhooks = useQuery({
    queryKey: ["webhooks", at.accountId],
    queryFn: () => berth.webhooks.list(at, { limit: MOST }).all(MOST),
  });
  if (webhooks.isPending) return <Loading />;
  if (!webhooks.data)
    return <Failure isScreen error={webhooks.error} retry={() => void webhooks.refetch()} />;
  const { title, create, empty, emptyHint, columns, never } = texts.webhooks;
  return (
    <>
      <title>{`${title} – ${texts.name}`}</title>
      <div className="head">
        <h1>{title}</h1>
        <button type="button" className="main" onClick={() => setIsCreating(true)}>
          {create}
        </button>
      </div>
      {webhooks.data.length === 0 ? (
        <Empty title={empty}>
          <p>{emptyHint}</p>
          <p className="hint">
            {texts.home.cli} <code>berth webhooks add URL</code>
          </p>
        </Empty>
      ) : (
        <Table caption={title} columns={columns}>
          <tbody>
            {webhooks.data.map((webhook) => (
              <tr key={webhook.id}>
                <th scope="row">
                  <Link
                    to="/accounts/$accountId/webhooks/$webhookId"
                    params={{ ...at, webhookId: webhook.id }}
                  >
                    {webhook.url}
                  </Link>{" "}
                  <span className="hint">{webhook.description}</span>
                </th>
                <td>{webhook.events.join(", ")}</td>
                <td>
                  <State webhook={webhook} />
                </td>
                <td>{webhook.succeededAt ? <Ago time={webhook.succeededAt} /> : never}</td>
              </tr>
            ))}
          </tbody>
        </Table>
      )}
      {isCreating && <NewWebhook onClose={() => setIsCreating(false)} />}
    </>
  );
}

function NewWebhook({ onClose }: { onClose: () => void }) {
  const at = useAccountAddress();
  const [made, setMade] = useState<Webhook>();
  const create = useMutation({
    gcTime: 0,
    mutationFn: async (request: WebhookFields) => setMade(await berth.webhooks.create(at, request)),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["webhooks", at.accountId] }),
  });
  if (made?.secret) return <Secret secret={made.secret} onClose={onClose} />;
  return (
    <WebhookDialog title={texts.webhooks.create} submit={texts.create} action={create} onClose={onClose} />
  );
}
