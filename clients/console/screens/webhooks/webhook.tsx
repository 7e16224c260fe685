import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import type { Webhook } from "../../../typescript/src/index.ts";
import { Confirm } from "../../design/confirm.tsx";
import { Alert } from "../../design/form.tsx";
import { Ago, Failure, Loading } from "../../design/state.tsx";
import { queries } from "../../live/queries.ts";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { Deliveries, deliveriesKey } from "./deliveries.tsx";
import { OwnersOnly } from "./owners-only.tsx";
import { Secret } from "./secret.tsx";
import { State } from "./state.tsx";
import { WebhookDialog, type WebhookFields } from "./webhook-dialog.tsx";

/** One webhook: whether it sends, and what became of what it sent. */
export function WebhookScreen() {
  return (
    <OwnersOnly>
      <One />
    </OwnersOnly>
  );
}

function One() {
  const at = useAccountAddress();
  const { webhookId } = useParams({ strict: false }) as { webhookId: string };
  const webhook = useQuery({
    queryKey: ["webhook", webhookId],
    queryFn: () => berth.webhooks.get(at, webhookId),
  });
  if (webhook.isPending) return <Loading />;
  if (!webhook.data) return <Failure isScreen error={webhook.error} retry={() => void webhook.refetch()} />;
  const { webhooks } = texts;
  const { url, description, events, format, createdAt } = webhook.data;
  return (
    <>
      <title>{`${webhooks.title} – ${texts.name}`}</title>
      <p>
        <Link to="/accounts/$accountId/webhooks" params={at}>
          {webhooks.all}
        </Link>
      </p>
      <h1>
        {url} <small>{description}</small>
      </h1>
      <p>
        <State webhook={webhook.data} />
      </p>
      <dl className="facts">
        <dt>{webhooks.events}</dt>
        <dd>{events.join(", ")}</dd>
        <dt>{webhooks.format}</dt>
        <dd>{webhooks.formats[format]}</dd>
        <dt>{webhooks.created}</dt>
        <dd>
          <Ago time={createdAt} />
        </dd>
      </dl>
      <Actions webhook={webhook.data} />
      <Deliveries webhookId={webhookId} />
    </>
  );
}

function Actions({ webhook }: { webhook: Webhook }) {
  const { id, url, enabled } = webhook;
  const at = useAccountAddress();
  const navigate = useNavigate();
  const [secret, setSecret] = useState<string>();
  const [isEditing, setIsEditing] = useState(false);
  const keep = (changed: Webhook) => {
    queries.setQueryData(["webhook", id], changed);
    void queries.invalidateQueries({ queryKey: ["webhooks", at.accountId] });
  };
  const update = useMutation({
    mutationFn: () => berth.webhooks.update(at, id, { enabled: !enabled }),
    onSuccess: keep,
    onSettled: () => queries.invalidateQueries({ queryKey: deliveriesKey(id) }),
  });
  const edit = useMutation({
    mutationFn: (fields: WebhookFields) => berth.webhooks.update(at, id, fields),
    onSuccess: (changed) => {
      keep(changed);
      setIsEditing(false);
    },
  });
  const test = useMutation({
    mutationFn: () => berth.webhooks.test(at, id),
    onSettled: () => queries.invalidateQueries({ queryKey: deliveriesKey(id) }),
  });
  const rotate = useMutation({
    gcTime: 0,
    mutationFn: async () => setSecret((await berth.webhooks.rotateSecret(at, id)).secret),
  });
  const remove = useMutation({
    mutationFn: () => berth.webhooks.delete(at, id),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["webhooks", at.accountId] });
      return navigate({ to: "/accounts/$accountId/webhooks", params: at });
    },
  });
  const { webhooks } = texts;
  // The dialog of the question gives way to that of the secret.
  if (secret !== undefined) return <Secret secret={secret} onClose={() => setSecret(undefined)} />;
  return (
    <>
      <div className="actions">
        <button
          type="button"
          className="main"
          aria-disabled={test.isPending}
          onClick={() => test.isPending || test.mutate()}
        >
          {webhooks.test}
        </button>
        <button
          type="button"
          aria-disabled={update.isPending}
          onClick={() => update.isPending || update.mutate()}
        >
          {enabled ? webhooks.pause : webhooks.resume}
        </button>
        <button type="button" onClick={() => setIsEditing(true)}>
          {webhooks.edit}
        </button>
        <Confirm
          text={webhooks.rotate}
          about={url}
          sentence={webhooks.rotateHint}
          action={{ ...rotate, mutate: () => rotate.mutate() }}
        />
        <Confirm
          text={texts.delete}
          about={url}
          sentence={webhooks.deleteHint}
          action={{ ...remove, mutate: () => remove.mutate() }}
        />
      </div>
      <Alert error={update.error ?? test.error} />
      {isEditing && (
        <WebhookDialog
          title={webhooks.editTitle}
          submit={texts.save}
          webhook={webhook}
          action={edit}
          onClose={() => {
            edit.reset();
            setIsEditing(false);
          }}
        />
      )}
    </>
  );
}
