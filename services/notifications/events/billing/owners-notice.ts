import type { Notice } from "../../notices/notify.ts";

/** A notice to the owners of an account; `dedupe` is unique within the account. */
export type OwnersNotice = Pick<Notice, "kind" | "title" | "body" | "dedupe"> & {
  metadata?: Record<string, string>;
};
