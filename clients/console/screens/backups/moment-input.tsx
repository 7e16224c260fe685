import { Input } from "../../design/form.tsx";
import { exactly, exactlyUtc, timeZone } from "../../design/format.ts";
import { texts } from "../../texts.ts";
import { fromLocal, toLocal, toLocalFrom } from "./moment.ts";

type MomentInputProps = {
  /** The oldest moment that can be restored. */
  oldest: string;
  /** As the input has it: in the time zone of the browser. */
  local: string;
  onChange: (local: string) => void;
};

/** A moment of an addon's past. */
export function MomentInput({ oldest, local, onChange }: MomentInputProps) {
  const { moment, momentHint, momentUtc } = texts.backups;
  const time = fromLocal(local);
  return (
    <Input
      label={moment}
      hint={`${momentHint(timeZone(), exactly(oldest))} ${time === undefined ? "" : momentUtc(exactlyUtc(time))}`}
      type="datetime-local"
      required
      step={1}
      min={toLocalFrom(oldest)}
      max={toLocal(Date.now())}
      value={local}
      onChange={({ target }) => onChange(target.value)}
    />
  );
}
