import { type ReactNode, useEffect, useId, useRef } from "react";
import { texts } from "../texts.ts";

/** A modal dialog, which is open as long as it is there. Escape and its close button end it. */
export function Dialog(props: { title: string; onClose: () => void; wide?: boolean; children: ReactNode }) {
  const { title, onClose, wide, children } = props;
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const dialog = element.current;
    if (!dialog || dialog.open) return;
    dialog.showModal();
    // Browsers focus what is first, which is the button that closes it.
    dialog.querySelector<HTMLElement>("input, select, textarea, form button")?.focus();
  }, []);
  return (
    <dialog ref={element} aria-labelledby={heading} className={wide ? "wide" : undefined} onClose={onClose}>
      <div className="top">
        <h2 id={heading} className="title">
          {title}
        </h2>
        <button type="button" className="quiet" onClick={() => element.current?.close()}>
          {texts.close}
        </button>
      </div>
      {children}
    </dialog>
  );
}
