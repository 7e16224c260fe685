import { type ReactNode, useEffect, useId, useRef } from "react";
import { texts } from "../texts.ts";
import { keepFocus } from "./focus.ts";

/** A modal dialog, which is open as long as it is there. Escape and its close button end it. */
export function Dialog(props: { title: string; onClose: () => void; wide?: boolean; children: ReactNode }) {
  const { title, onClose, wide, children } = props;
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const dialog = element.current;
    const opener = document.activeElement;
    if (!dialog) return;
    dialog.showModal();
    // A browser gives the focus back where a dialog is closed, and loses it where one is removed.
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
      keepFocus();
    };
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: what a dialog shows next has a title of its own.
  useEffect(() => {
    // Browsers focus what is first, which is the button that closes it.
    const first = element.current?.querySelector<HTMLElement>("input, select, textarea, form button");
    (first ?? element.current?.querySelector("button"))?.focus();
  }, [title]);
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
