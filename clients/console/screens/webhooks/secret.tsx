import { Dialog } from "../../design/dialog.tsx";
import { Input } from "../../design/form.tsx";
import { texts } from "../../texts.ts";

/** Shows a secret once: it is nowhere but in this dialog. */
export function Secret({ secret, onClose }: { secret: string; onClose: () => void }) {
  const { webhooks } = texts;
  return (
    <Dialog title={webhooks.secret} onClose={onClose}>
      <p role="status">{webhooks.once}</p>
      <Input
        label={webhooks.secret}
        hint={webhooks.secretHint}
        readOnly
        value={secret}
        onFocus={({ target }) => target.select()}
      />
    </Dialog>
  );
}
