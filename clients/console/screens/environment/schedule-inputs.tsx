import { Input } from "../../design/form.tsx";
import { texts } from "../../texts.ts";

/** When a cron service runs. */
export function ScheduleInputs({ schedule, timeZone = "UTC" }: { schedule?: string; timeZone?: string }) {
  return (
    <>
      <Input
        label={texts.environment.schedule}
        hint={texts.environment.scheduleHint}
        name="schedule"
        defaultValue={schedule}
      />
      <Input label={texts.environment.timeZone} name="timeZone" defaultValue={timeZone} required />
    </>
  );
}
