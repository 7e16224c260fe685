import type { Registry } from "../../../typescript/src/index.ts";
import { Dialog } from "../../design/dialog.tsx";
import { Form, Input } from "../../design/form.tsx";
import { texts } from "../../texts.ts";

export type Login = { host: string; user: string; token: string };
type LoginDialogProps = {
  title: string;
  submit: string;
  /** Whose login is replaced. */
  registry?: Registry;
  action: { mutate: (login: Login) => void; error: unknown; isPending: boolean };
  onClose: () => void;
};

/** The login for a registry: of a new one, or what replaces that of one. */
export function LoginDialog({ title, submit, registry, action, onClose }: LoginDialogProps) {
  const send = (fields: FormData) => {
    const text = (name: string) => String(fields.get(name)).trim();
    action.mutate({
      host: registry?.host ?? text("host"),
      user: text("user"),
      token: text("token"),
    });
  };
  const { host, hostHint, user, token, tokenHint } = texts.registries;
  return (
    <Dialog title={title} onClose={onClose}>
      <Form onSubmit={send} error={action.error} isBusy={action.isPending} submit={submit}>
        {!registry && (
          <Input label={host} hint={hostHint} name="host" required maxLength={255} spellCheck={false} />
        )}
        <Input
          label={user}
          name="user"
          required
          maxLength={255}
          defaultValue={registry?.user}
          spellCheck={false}
        />
        <Input
          label={token}
          hint={tokenHint}
          name="token"
          type="password"
          autoComplete="new-password"
          required
          maxLength={8192}
        />
      </Form>
    </Dialog>
  );
}
