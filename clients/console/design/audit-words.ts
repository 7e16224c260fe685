import type { AuditActor, AuditEvent } from "../../typescript/src/index.ts";
import type { Names } from "../live/names.ts";
import { texts } from "../texts.ts";

/**
 * Returns what was done, in words. `{member}` in a sentence is that of the metadata, or the target; what is in brackets is
 * left out where one of its members is not there.
 */
export function wordsOf({ action, target, metadata }: AuditEvent, names: Names): string {
  const sentence = (texts.audit.actions as Record<string, string>)[action];
  if (sentence === undefined) return `${action} ${target}`;
  const about = new Map(Object.entries(metadata));
  about.set("target", target).set("person", names.get(target) ?? target);
  const fill = (text: string) =>
    text.replaceAll(/\{(\w+)\}/g, (_, member: string) => about.get(member) || "…");
  const isWhole = (text: string) =>
    [...text.matchAll(/\{(\w+)\}/g)].every(([, member]) => about.get(member ?? ""));
  const kept = sentence.replaceAll(/\[([^\]]*)\]/g, (_, part: string) => (isWhole(part) ? part : ""));
  const tool = about.get("tool");
  return fill(kept) + (tool ? ` ${texts.audit.byTool(tool)}` : "");
}

/** Returns who did it: the name, as far as it is known. */
export function actorOf({ kind, id }: Pick<AuditActor, "kind" | "id">, names: Names): string {
  if (kind === "service") return texts.audit.platform(id);
  const name = names.get(id) ?? id;
  return kind === "machine" ? texts.audit.machine(name) : name;
}
