import type { CreateWebhookRequest, Webhook } from "../../../typescript/src/index.ts";
import { Dialog } from "../../design/dialog.tsx";
import { Field, Form, Input } from "../../design/form.tsx";
import { texts } from "../../texts.ts";

export type WebhookFields = Required<Pick<CreateWebhookRequest, "url" | "description" | "events" | "format">>;

type WebhookDialogProps = {
  title: string;
  submit: string;
  /** What the fields begin with; without it, those of a new webhook. */
  webhook?: Webhook;
  action: { mutate: (fields: WebhookFields) => void; error: unknown; isPending: boolean };
  onClose: () => void;
};

/** Where a webhook sends which events: for a new one, and for one that is changed. */
export function WebhookDialog({ title, submit, webhook, action, onClose }: WebhookDialogProps) {
  const send = (fields: FormData) => {
    const text = (name: string) => String(fields.get(name)).trim();
    action.mutate({
      url: text("url"),
      description: text("description"),
      events: text("events")
        .split(/[\s,]+/)
        .filter(Boolean),
      format: text("format") as WebhookFields["format"],
    });
  };
  const { webhooks } = texts;
  const { url, description, events = ["*"], format = "standard" } = webhook ?? {};
  return (
    <Dialog title={title} onClose={onClose}>
      <Form onSubmit={send} error={action.error} isBusy={action.isPending} submit={submit}>
        <Input
          label={webhooks.url}
          hint={webhooks.urlHint}
          name="url"
          type="url"
          required
          maxLength={2048}
          defaultValue={url}
        />
        <Input label={webhooks.description} name="description" maxLength={200} defaultValue={description} />
        <Input
          label={webhooks.events}
          hint={webhooks.eventsHint}
          name="events"
          required
          // At least one: an empty list changes nothing.
          pattern=".*[^\s,].*"
          defaultValue={events.join(", ")}
          spellCheck={false}
        />
        <Field label={webhooks.format}>
          {(id) => (
            <select id={id} name="format" defaultValue={format}>
              <option value="standard">{webhooks.formats.standard}</option>
              <option value="slack">{webhooks.formats.slack}</option>
            </select>
          )}
        </Field>
      </Form>
    </Dialog>
  );
}
