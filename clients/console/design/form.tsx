import { type ComponentProps, type FormEvent, type ReactNode, useEffect, useId, useRef } from "react";
import { isRefusal } from "../../typescript/src/index.ts";
import { texts } from "../texts.ts";
import { sentenceOf } from "./state.tsx";

type FormProps = {
  onSubmit: (fields: FormData) => void;
  /** Of the last try. */
  error: unknown;
  isBusy: boolean;
  submit: string;
  dangerous?: boolean;
  children: ReactNode;
};

/** After so long a form that was sent is drawn as busy, if it asks anything. */
const DRAWN_MS = 100;

/** A form with one button. What the API refuses stands above the button, and what is wrong with a field at the field. */
export function Form({ onSubmit, error, isBusy, submit, dangerous, children }: FormProps) {
  // That it is busy is drawn a moment later, and a second Enter may be there before.
  const isSending = useRef(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: both say that the last try is over.
  useEffect(() => {
    if (!isBusy) isSending.current = false;
  }, [isBusy, error]);
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (isBusy || isSending.current) return;
    isSending.current = true;
    onSubmit(new FormData(event.currentTarget));
    setTimeout(() => {
      isSending.current = false;
    }, DRAWN_MS);
  };
  return (
    <form onSubmit={send}>
      {children}
      <Alert error={error} />
      <p className="actions">
        <button type="submit" className={dangerous ? "danger" : "main"} aria-disabled={isBusy}>
          {isBusy ? texts.working : submit}
        </button>
      </p>
    </form>
  );
}

/** Says what an error says, to those who see and to those who hear. */
export function Alert({ error }: { error: unknown }) {
  if (!error) return null;
  const details = isRefusal(error) ? error.details : [];
  return (
    <div className="error" role="alert">
      <p>
        {sentenceOf(error)}{" "}
        {isRefusal(error, "unauthenticated") && (
          <a href="/signin" target="_blank" rel="noopener">
            {texts.failures.signIn}
          </a>
        )}
      </p>
      {details.length > 0 && (
        <ul>
          {details.map(({ path, message }) => (
            <li key={`${path} ${message}`}>
              {path !== "" && <code>{path}</code>} {message}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

type FieldProps = { label: string; hint?: ReactNode; children: (id: string, hintId?: string) => ReactNode };

/** A control with its label. */
export function Field({ label, hint, children }: FieldProps) {
  const id = useId();
  const hintId = hint === undefined ? undefined : `${id}-hint`;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(id, hintId)}
      {hint !== undefined && (
        <p className="hint" id={hintId}>
          {hint}
        </p>
      )}
    </div>
  );
}

type InputProps = Omit<ComponentProps<"input">, "id"> & { label: string; hint?: ReactNode };

export function Input({ label, hint, ...rest }: InputProps) {
  return (
    <Field label={label} hint={hint}>
      {(id, hintId) => <input autoComplete="off" {...rest} id={id} aria-describedby={hintId} />}
    </Field>
  );
}

/** The name of a new project, environment or service. */
export function NameInput({ proposed }: { proposed?: string }) {
  const { name, nameHint } = texts.home;
  return (
    <Input
      label={name}
      hint={nameHint}
      name="name"
      required
      maxLength={40}
      spellCheck={false}
      defaultValue={proposed}
    />
  );
}
