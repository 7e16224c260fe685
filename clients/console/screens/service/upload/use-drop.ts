import { useEffect, useRef } from "react";
import { type Given, ofDropped } from "./tree.ts";

/** Takes files and folders that are dropped anywhere on the page, which a browser would otherwise open in its place. */
export function useDrop(onDrop: (given: Given) => void): void {
  const latest = useRef(onDrop);
  latest.current = onDrop;
  useEffect(() => {
    const hasFiles = ({ dataTransfer }: DragEvent) => dataTransfer?.types.includes("Files") ?? false;
    const over = (event: DragEvent) => hasFiles(event) && event.preventDefault();
    const drop = (event: DragEvent) => {
      if (!event.dataTransfer || !hasFiles(event)) return;
      event.preventDefault();
      const given = ofDropped(event.dataTransfer);
      if (given.length > 0) latest.current(given);
    };
    addEventListener("dragover", over);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("drop", drop);
    };
  }, []);
}
