import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { Backup, ServiceAddress } from "../../../typescript/src/index.ts";
import { Dialog } from "../../design/dialog.tsx";
import { Form, Input } from "../../design/form.tsx";
import { exactly } from "../../design/format.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { fromLocal, toLocal } from "./moment.ts";
import { MomentInput } from "./moment-input.tsx";

type RestoreDialogProps = {
  at: ServiceAddress;
  name: string;
  /** A backup, or that the user names a moment, of which this is the oldest. */
  from: { backup: Backup } | { oldest: string };
  onRestore: () => void;
  onClose: () => void;
};

/** Replaces all data of an addon by that of a backup or of a moment, after the addon's name was typed. */
export function RestoreDialog({ at, name, from, onRestore, onClose }: RestoreDialogProps) {
  const [typed, setTyped] = useState("");
  const [local, setLocal] = useState(() => toLocal(Date.now()));
  const isMoment = "oldest" in from;
  const time = isMoment ? fromLocal(local) : (from.backup.at ?? from.backup.startedAt);
  const restore = useMutation({
    mutationFn: () =>
      berth.backups.restore(at, {
        ...(isMoment ? { at: time } : { backup: from.backup.id }),
        confirmImpact: true,
      }),
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
        {isMoment && <MomentInput oldest={from.oldest} local={local} onChange={setLocal} />}
        <p>{restoreLost(name, time === undefined ? "…" : exactly(time))}</p>
        {isMoment && <p>{texts.backups.momentMade}</p>}
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
