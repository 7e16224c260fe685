import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { WebhookDelivery } from "../../../typescript/src/index.ts";
import { Dialog } from "../../design/dialog.tsx";
import { Alert } from "../../design/form.tsx";
import { More } from "../../design/more.tsx";
import { Rows } from "../../design/rows.tsx";
import { Ago, Empty, Failure, Loading } from "../../design/state.tsx";
import { Table } from "../../design/table.tsx";
import { usePages } from "../../live/pages.ts";
import { queries } from "../../live/queries.ts";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

type State = WebhookDelivery["state"];

export const deliveriesKey = (webhookId: string, ...of: string[]) => ["deliveries", webhookId, ...of];

/** What a webhook sent, as it was when it was read: no stream says when there is news. */
export function Deliveries({ webhookId }: { webhookId: string }) {
  const at = useAccountAddress();
  const [state, setState] = useState<State | "">("");
  const [shown, setShown] = useState<string>();
  const pages = usePages({
    queryKey: deliveriesKey(webhookId, state),
    read: (cursor) =>
      berth.webhooks.deliveries(at, webhookId, { limit: 50, ...(state !== "" && { state }) }).page(cursor),
    staleTime: 0,
  });
  const deliveries = pages.data;
  const {
    deliveries: title,
    noDeliveries,
    noDeliveriesHint,
    states,
    anyState,
    deliveryColumns,
  } = texts.webhooks;
  return (
    <section>
      <div className="head">
        <h2>{title}</h2>
        <select
          aria-label={texts.service.state}
          value={state}
          onChange={({ target }) => setState(target.value as State | "")}
        >
          <option value="">{anyState}</option>
          {(["pending", "delivered", "failed"] as const).map((one) => (
            <option key={one} value={one}>
              {states[one][1]}
            </option>
          ))}
        </select>
        <button type="button" onClick={() => void pages.refetch()}>
          {texts.webhooks.look}
        </button>
      </div>
      {pages.isPending && <Loading />}
      {!pages.data && pages.error && <Failure error={pages.error} retry={() => void pages.refetch()} />}
      {deliveries?.length === 0 && (
        <Empty title={noDeliveries}>
          <p>{noDeliveriesHint}</p>
        </Empty>
      )}
      {deliveries && deliveries.length > 0 && (
        <Table caption={title} columns={deliveryColumns}>
          <Rows
            items={deliveries}
            keyOf={({ id }) => id}
            rowHeight={44}
            columns={deliveryColumns.length}
            row={(delivery) => <Cells delivery={delivery} onShow={() => setShown(delivery.id)} />}
          />
        </Table>
      )}
      <More pages={pages} />
      {shown !== undefined && (
        <Body webhookId={webhookId} deliveryId={shown} onClose={() => setShown(undefined)} />
      )}
    </section>
  );
}

function Cells({ delivery, onShow }: { delivery: WebhookDelivery; onShow: () => void }) {
  const at = useAccountAddress();
  const { id, webhookId, kind, state, attempts, status, error, createdAt, nextAttemptAt } = delivery;
  const replay = useMutation({
    mutationFn: () => berth.webhooks.replay(at, webhookId, id),
    onSettled: () => queries.invalidateQueries({ queryKey: deliveriesKey(webhookId) }),
  });
  const { states, errors, replay: again, body, answered, next } = texts.webhooks;
  const [symbol, word, tone] = states[state];
  return (
    <>
      <th scope="row">{kind}</th>
      <td>
        <Ago time={createdAt} />
      </td>
      <td>
        <span className={`status ${tone}`}>
          <span aria-hidden="true">{symbol}</span> {word}
        </span>
        {nextAttemptAt && (
          <span className="hint">
            {" "}
            {next} <Ago time={nextAttemptAt} />
          </span>
        )}
      </td>
      <td className="number">{attempts}</td>
      <td>
        {status !== undefined && answered(status)}
        {error && errors[error]}
      </td>
      <td>
        <button type="button" className="quiet" onClick={onShow}>
          {body}
          <span className="unseen"> {kind}</span>
        </button>{" "}
        {state !== "pending" && (
          <button
            type="button"
            className="quiet"
            aria-disabled={replay.isPending}
            onClick={() => replay.isPending || replay.mutate()}
          >
            {again}
            <span className="unseen"> {kind}</span>
          </button>
        )}
        <Alert error={replay.error} />
      </td>
    </>
  );
}

type BodyProps = { webhookId: string; deliveryId: string; onClose: () => void };

/** What was sent. It is not kept: it may contain what only owners see. */
function Body({ webhookId, deliveryId, onClose }: BodyProps) {
  const at = useAccountAddress();
  const delivery = useQuery({
    queryKey: ["delivery", deliveryId],
    queryFn: () => berth.webhooks.getDelivery(at, webhookId, deliveryId),
    gcTime: 0,
  });
  return (
    <Dialog title={texts.webhooks.body} onClose={onClose} wide>
      {delivery.isPending && <Loading />}
      <Alert error={delivery.error} />
      {delivery.data && (
        <p>
          <code className="value">{delivery.data.body}</code>
        </p>
      )}
    </Dialog>
  );
}
