import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type {
  DanglingVariable,
  ResolvedVariable,
  ServiceAddress,
  VariableEntry,
} from "../../../typescript/src/index.ts";
import { Dialog } from "../../design/dialog.tsx";
import { Field, Form, Input } from "../../design/form.tsx";
import { useEnvironment } from "../../live/environment.tsx";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { Impact } from "./impact.tsx";
import { SCOPES, type ScopeName, scopeAt } from "./scopes.ts";

type Kind = keyof typeof texts.variables.kinds;
type EditProps = {
  at: ServiceAddress;
  variable: ResolvedVariable | DanglingVariable | undefined;
  onClose: () => void;
};

/** Creates a variable, or sets one anew; at a wider scope it says first whom that reaches. */
export function EditVariable({ at, variable, onClose }: EditProps) {
  const known = variable && "source" in variable ? variable : undefined;
  const [name, setName] = useState(variable?.name ?? "");
  const [scope, setScope] = useState<ScopeName>(known?.source ?? "service");
  const [kind, setKind] = useState<Kind>(
    variable?.connection ? "connection" : variable?.aliasTarget ? "alias" : "value",
  );
  const save = useMutation({
    gcTime: 0,
    mutationFn: (entry: VariableEntry) => berth.variables.batch(scopeAt(at, scope), { set: [entry] }),
    onSuccess: onClose,
  });
  const submit = (fields: FormData) => save.mutate(entryOf(name.trim(), kind, fields));
  return (
    <Dialog title={variable?.name ?? texts.variables.add} onClose={onClose}>
      <Form onSubmit={submit} error={save.error} isBusy={save.isPending} submit={texts.save}>
        {!variable && (
          <Input
            label={texts.variables.name}
            required
            maxLength={128}
            spellCheck={false}
            value={name}
            onChange={({ target }) => setName(target.value)}
          />
        )}
        <Field label={texts.variables.kind}>
          {(id) => (
            <select id={id} value={kind} onChange={({ target }) => setKind(target.value as Kind)}>
              {(Object.entries(texts.variables.kinds) as [Kind, string][]).map(([value, label]) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </select>
          )}
        </Field>
        {kind === "value" && <ValueFields variable={known} />}
        {kind === "connection" && <ConnectionFields connection={variable?.connection} />}
        {kind === "alias" && (
          <Input
            label={texts.variables.target}
            name="aliasTarget"
            required
            defaultValue={variable?.aliasTarget}
          />
        )}
        <Field label={texts.variables.scope}>
          {(id) => (
            <select id={id} value={scope} onChange={({ target }) => setScope(target.value as ScopeName)}>
              {SCOPES.map((value) => (
                <option key={value} value={value}>
                  {texts.scopes[value]}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Impact at={at} scope={scope} name={name.trim()} />
      </Form>
    </Dialog>
  );
}

function ValueFields({ variable }: { variable: ResolvedVariable | undefined }) {
  const isHidden = variable?.sensitive === true && !variable.connection && !variable.aliasTarget;
  return (
    <>
      <Field label={texts.variables.value} hint={isHidden ? texts.variables.replaced : undefined}>
        {(id, hint) => (
          <textarea
            id={id}
            aria-describedby={hint}
            name="value"
            // What is saved replaces a value that is not shown.
            required={isHidden}
            rows={3}
            spellCheck={false}
            autoComplete="off"
            defaultValue={variable?.value}
          />
        )}
      </Field>
      <label className="check">
        <input type="checkbox" name="sensitive" defaultChecked={variable?.sensitive} />
        {texts.variables.sensitive}
      </label>
    </>
  );
}

function ConnectionFields({ connection }: { connection: { service: string; key: string } | undefined }) {
  const addons = (useEnvironment().services ?? []).filter(
    ({ type }) => type === "postgres" || type === "redis",
  );
  const [service, setService] = useState(connection?.service ?? addons[0]?.name ?? "");
  const type = addons.find(({ name }) => name === service)?.type;
  const keys = type === "redis" ? ["URL", "HOST", "PORT", "PASSWORD"] : POSTGRES_KEYS;
  return (
    <>
      <Field label={texts.variables.addon}>
        {(id) => (
          <select
            id={id}
            name="service"
            required
            value={service}
            onChange={({ target }) => setService(target.value)}
          >
            {[...new Set([...addons.map(({ name }) => name), service])].map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label={texts.variables.key}>
        {(id) => (
          <select id={id} name="key" defaultValue={connection?.key}>
            {keys.map((key) => (
              <option key={key} value={key}>
                {key}
              </option>
            ))}
          </select>
        )}
      </Field>
    </>
  );
}

const POSTGRES_KEYS = ["URL", "POOLED_URL", "HOST", "PORT", "USER", "PASSWORD", "DATABASE"];

function entryOf(name: string, kind: Kind, fields: FormData): VariableEntry {
  const text = (field: string) => String(fields.get(field) ?? "");
  if (kind === "connection") return { name, connection: { service: text("service"), key: text("key") } };
  if (kind === "alias") return { name, aliasTarget: text("aliasTarget").trim() };
  // Browsers send line breaks of forms as CRLF.
  return { name, value: text("value").replaceAll("\r\n", "\n"), sensitive: fields.has("sensitive") };
}
