import { useEffect, useRef } from "react";
import { Unreachable } from "../../typescript/src/index.ts";
import { texts } from "../texts.ts";
import { Complaint } from "./complaint.ts";

// What dialogs share that send a file.

/** Returns what gives the signal that ends what is under way when the dialog is closed. */
export function useSignal(): () => AbortSignal {
  const stop = useRef<AbortController>(undefined);
  useEffect(() => {
    const controller = new AbortController();
    stop.current = controller;
    return () => controller.abort();
  }, []);
  return () => (stop.current as AbortController).signal;
}

/** Throws what to tell a person of an upload that failed: a browser does not say why it could not send. */
export function sayInterrupted(error: unknown): never {
  throw error instanceof Unreachable ? new Complaint(texts.upload.interrupted) : error;
}

export type Progress = { sentence: string; done: number; all: number };

export function ProgressLine({ sentence, done, all }: Progress) {
  return (
    <p>
      <progress aria-label={texts.upload.progress} max={all} value={done} /> {sentence}
    </p>
  );
}
