import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { Backup, ServiceAddress } from "../../../typescript/src/index.ts";
import { Dialog } from "../../design/dialog.tsx";
import { Form, Input } from "../../design/form.tsx";
import { exactly } from "../../design/format.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

type RestoreDialogProps = {
  at: ServiceAddress;
  name: string;
  backup: Backup;
  onRestore: () => void;
  onClose: () => void;
};

/** Replaces all data of an addon by that of a backup, after the addon's name was typed. */
export function RestoreDialog({
  at,
  name,
  backup: { id, startedAt },
  onRestore,
  onClose,
}: RestoreDialogProps) {
  const [typed, setTyped] = useState("");
  const restore = useMutation({
    mutationFn: () => berth.backups.restore(at, { backup: id, confirmImpact: true }),
    onSuccess: () => {
      onRestore();
      onClose();
    },
  });
  const { restoreTitle, restoreLost, restore: submit } = texts.backups;
  return (
    <Dialog title={restoreTitle(name)} onClose={onClose}>
      <Form
        onSubmit={() => typed === name && restore.mutate()}
        error={restore.error}
        isBusy={restore.isPending}
        submit={submit}
        dangerous
      >
        <p>{restoreLost(name, exactly(startedAt))}</p>
        <Input
          label={texts.settings.typeName(name)}
          required
          // The whole name, whose characters mean nothing in a pattern.
          pattern={name}
          value={typed}
          onChange={({ target }) => setTyped(target.value)}
        />
      </Form>
    </Dialog>
  );
}
