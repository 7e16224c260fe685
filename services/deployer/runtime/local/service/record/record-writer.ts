import type { Logger } from "../../../../shared/logger.ts";
import { type ServiceRecord, writeServiceRecord } from "./service-record.ts";
import type { Sealer } from "./state-seal.ts";

const RETRY_MS = 1_000;

/** Writes the record of a service to its folder, whenever it differs from what was written last. */
export function createRecordWriter(
  { folder, sealer, log }: { folder: string; sealer: Sealer; log: Logger },
  current: () => ServiceRecord,
) {
  let written = "";
  let failing = false;
  let closed = false;
  let timer: NodeJS.Timeout | undefined;

  /** Throws when the disk has no room; then the record on disk is the one before. */
  function write(record: ServiceRecord): void {
    const text = JSON.stringify(record);
    if (text !== written) writeServiceRecord(folder, record, sealer);
    written = text;
    clearTimeout(timer);
    timer = undefined;
  }

  /** As `write`, but a write that fails is logged once and repeated until it succeeds. */
  function tryWrite(record: ServiceRecord = current()): void {
    try {
      write(record);
      failing = false;
    } catch (error) {
      const { serviceId } = record;
      if (!failing)
        log.error({ err: error, serviceId }, "could not write the state of a service; retrying every second");
      failing = true;
      writeLater();
    }
  }

  function writeLater(): void {
    if (closed) return;
    timer ??= setTimeout(() => {
      timer = undefined;
      tryWrite();
    }, RETRY_MS).unref();
  }

  return {
    write,
    tryWrite,
    writeLater,
    /** Ends the retries; `write` and `tryWrite` still write. */
    close(): void {
      closed = true;
      clearTimeout(timer);
    },
  };
}
