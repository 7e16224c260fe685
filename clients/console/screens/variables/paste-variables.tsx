import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { ResolvedVariable, ServiceAddress, VariableEntry } from "../../../typescript/src/index.ts";
import { Dialog } from "../../design/dialog.tsx";
import { Field, Form } from "../../design/form.tsx";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { readEnv } from "./read-env.ts";

type PasteProps = { at: ServiceAddress; set: ResolvedVariable[]; onClose: () => void };

/** Sets the variables of a `.env` for the service: all of them or none. */
export function PasteVariables({ at, set, onClose }: PasteProps) {
  const [text, setText] = useState("");
  const [isSensitive, setIsSensitive] = useState(true);
  const entries = readEnv(text);
  const own = new Set(
    set.filter(({ source, fromConfig }) => source === "service" && !fromConfig).map(({ name }) => name),
  );
  const overwritten = entries.filter(({ name }) => own.has(name)).length;
  const save = useMutation({
    gcTime: 0,
    mutationFn: (all: VariableEntry[]) => berth.variables.batch(at, { set: all }),
    onSuccess: onClose,
  });
  const submit = () => {
    if (entries.length > 0) save.mutate(entries.map((entry) => ({ ...entry, sensitive: isSensitive })));
  };
  return (
    <Dialog title={texts.variables.paste} onClose={onClose} wide>
      <Form onSubmit={submit} error={save.error} isBusy={save.isPending} submit={texts.save}>
        <Field label={texts.variables.pasteLabel} hint={texts.variables.pasteHint}>
          {(id, hint) => (
            <textarea
              id={id}
              aria-describedby={hint}
              rows={10}
              spellCheck={false}
              autoComplete="off"
              value={text}
              onChange={({ target }) => setText(target.value)}
            />
          )}
        </Field>
        <label className="check">
          <input
            type="checkbox"
            checked={isSensitive}
            onChange={({ target }) => setIsSensitive(target.checked)}
          />
          {texts.variables.pasteSensitive}
        </label>
        <p role="status" className="hint">
          {entries.length === 0
            ? texts.variables.nothing
            : texts.variables.willSet(entries.length, overwritten)}
        </p>
        {entries.length > 0 && (
          <p>
            {entries.map(({ name }) => (
              <code key={name}>{name} </code>
            ))}
          </p>
        )}
      </Form>
    </Dialog>
  );
}
