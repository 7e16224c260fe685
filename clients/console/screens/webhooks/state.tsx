import type { Webhook } from "../../../typescript/src/index.ts";
import { texts } from "../../texts.ts";

/** Whether a webhook sends, and why it does not. */
export function State({ webhook }: { webhook: Webhook }) {
  const { on, off, reasons } = texts.webhooks;
  const [symbol, word, tone] = webhook.enabled ? on : off;
  return (
    <>
      <span className={`status ${tone}`}>
        <span aria-hidden="true">{symbol}</span> {word}
      </span>
      {webhook.disabledReason && <span className="hint"> {reasons[webhook.disabledReason]}</span>}
    </>
  );
}
