import { rm } from "node:fs/promises";
import { join } from "node:path";
import { writeSafely } from "./secrets.ts";

/** The members of `.berth/local.json` (docs/operations.md#local-info); scripts read them. */
export type LocalInfo = {
  /** Where programs of this machine reach the API, also while a proxy in front is not there yet. */
  origin: string;
  baseUrl: string;
  /** Where people reach it through a proxy, and the domain of apps; absent without a proxy. */
  publicUrl?: string;
  appsDomain?: string;
  ownerEmail: string;
  ownerToken: string;
  accountId: string;
  /** Where captured mails are shown; absent when mail is sent by SMTP_URL. */
  mailUrl?: string;
  /** The page of the simulator that takes payments; absent with STRIPE_SECRET_KEY. */
  checkoutUrl?: string;
  pid: number;
};

/** The file of a run. */
export function localInfoIn(dir: string) {
  const file = join(dir, "local.json");
  let writing: Promise<void> | undefined;
  let isRemoved = false;
  return {
    /** Writes it, once everything answers; not any longer once it was removed. */
    async write(info: LocalInfo): Promise<void> {
      if (isRemoved) return;
      writing = writeSafely(file, `${JSON.stringify(info, null, 2)}\n`);
      await writing;
    },
    /** Removes it for good, also one that a killed run left: nothing answers there now. */
    async remove(): Promise<void> {
      isRemoved = true;
      // A stop may come while it is being written.
      await writing?.catch(() => {});
      await rm(file, { force: true });
    },
  };
}
