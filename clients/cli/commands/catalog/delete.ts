import { isRefusal } from "../../../typescript/src/errors.ts";
import type { Context } from "../../context.ts";
import { count } from "../../terminal/format.ts";
import { confirm } from "../../terminal/prompt.ts";

type Deleting = {
  /** What it is called: `project shop`. */
  label: string;
  yes: boolean;
  /** The command that needs no question. */
  again: string;
  /** What is in it, for people. */
  contents: () => Promise<string[]>;
  remove: (confirmImpact: boolean) => Promise<void>;
};

/** Deletes something after showing what goes with it. `--yes` answers the question, not before the impact is known. */
export async function deleteWithImpact(
  ctx: Context,
  { label, yes, again, contents, remove }: Deleting,
): Promise<void> {
  const { io } = ctx;
  const inside = await contents();
  io.note(`  ${io.styleErr("bold", label)}${inside.length > 0 ? ` with ${inside.join(", ")}` : ""}`);
  await confirm(io, "Delete it with its history, variables and data?", yes, again);
  try {
    await remove(false);
  } catch (error) {
    if (!isRefusal(error, "impact_confirmation_required")) throw error;
    const { services, total, keptBackups, keptUntil } = error.impact;
    const names = services.map(({ name }) => name).join(", ");
    io.note(
      `  ${count(total, "service")} in it ${total === 1 ? "is" : "are"} live: ${names}${total > services.length ? ", …" : ""}`,
    );
    if (keptBackups && keptUntil)
      io.note(`  The newest backup of each addon in it is kept until ${keptUntil}: berth backups`);
    await confirm(io, "Delete it anyway?", yes, again);
    await remove(true);
  }
  if (io.json) io.outJson({ deleted: label });
  else io.note(`  Deleted the ${label}.`);
}
