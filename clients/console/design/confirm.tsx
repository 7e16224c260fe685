import { useState } from "react";
import { Dialog } from "./dialog.tsx";
import { Form } from "./form.tsx";

type ConfirmProps = {
  /** What the button says, and what it is about for those who do not see the row. */
  text: string;
  about: string;
  /** What it does. */
  sentence: string;
  action: { mutate: () => void; error: unknown; isPending: boolean; reset: () => void };
};

/** A button that does what cannot be taken back: pressed once it only asks. */
export function Confirm({ text, about, sentence, action }: ConfirmProps) {
  const [isOpen, setIsOpen] = useState(false);
  const close = () => {
    // Why it failed was said. Asked again, it is not said before it is tried.
    if (!action.isPending) action.reset();
    setIsOpen(false);
  };
  return (
    <>
      <button type="button" className="quiet" onClick={() => setIsOpen(true)}>
        {text}
        <span className="unseen"> {about}</span>
      </button>
      {isOpen && (
        <Dialog title={`${text} ${about}`} onClose={close}>
          <Form
            onSubmit={action.mutate}
            error={action.error}
            isBusy={action.isPending}
            submit={text}
            dangerous
          >
            <p>{sentence}</p>
          </Form>
        </Dialog>
      )}
    </>
  );
}
