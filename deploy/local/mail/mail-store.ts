import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import PostalMime from "postal-mime";
import { newId } from "../../../services/kit/ids.ts";

/** A captured mail. */
export type CapturedMail = {
  id: string;
  to: string;
  subject: string;
  date: string;
  text: string;
  /** Absent for mails of plain text. */
  html?: string;
};

/** How many mails are kept. */
const KEPT = 200;

export type MailStore = ReturnType<typeof createMailStore>;

/** Mails as files of a folder, `<id>.eml`; ids sort by arrival. */
export function createMailStore(dir: string) {
  const pathOf = (id: string) => join(dir, `${id}.eml`);

  async function ids(): Promise<string[]> {
    const names = await readdir(dir).catch(() => []);
    const stored = names.filter((name) => name.endsWith(".eml")).sort();
    return stored.reverse().map((name) => name.slice(0, -".eml".length));
  }

  async function find(id: string): Promise<CapturedMail | undefined> {
    if (!/^mail_\w{26}$/.test(id)) return undefined;
    const raw = await readFile(pathOf(id)).catch(() => undefined);
    if (!raw) return undefined;
    const { to = [], subject = "", date = "", text = "", html } = await PostalMime.parse(raw);
    const receivers = to.map(({ address }) => address).join(", ");
    return { id, to: receivers, subject, date, text, ...(html && { html }) };
  }

  return {
    /** Stores a mail, and removes the oldest ones beyond those that are kept. */
    async add(raw: Buffer): Promise<void> {
      await mkdir(dir, { recursive: true, mode: 0o700 });
      const path = pathOf(newId("mail"));
      await writeFile(`${path}.new`, raw, { mode: 0o600 });
      await rename(`${path}.new`, path);
      for (const old of (await ids()).slice(KEPT)) await rm(pathOf(old), { force: true });
    },
    find,
    /** Returns all mails, newest first. */
    async list(): Promise<CapturedMail[]> {
      const all = await Promise.all((await ids()).map(find));
      return all.filter((mail) => mail !== undefined);
    },
  };
}
