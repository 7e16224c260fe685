/** What was done to the platform, to whom and from when until when (ms), until the platform was ready again. */
type Span = { name: string; subject: string; from: number; to: number };

export type FaultLog = ReturnType<typeof createFaultLog>;

/** Remembers when which fault was active: what clients may expect depends on it. */
export function createFaultLog() {
  const spans: Span[] = [];
  const overlapping = (from: number, to: number) => spans.filter((one) => one.from <= to && one.to >= from);
  return {
    /** Remembers a fault from now until `over` settles. */
    async remember(name: string, subject: string, over: () => Promise<unknown>): Promise<void> {
      const span = { name, subject, from: Date.now(), to: Infinity };
      spans.push(span);
      try {
        await over();
      } finally {
        span.to = Date.now();
      }
    },
    /** Whether no fault was active from one time to another. */
    calm: (from: number, to: number) => overlapping(from, to).length === 0,
    /** Returns whom faults concerned that were active from one time to another. */
    subjects: (from: number, to: number) => overlapping(from, to).map(({ subject }) => subject),
    /** Returns how many there were of each name. */
    counts: () =>
      new Map([...Map.groupBy(spans, ({ name }) => name)].map(([name, all]) => [name, all.length])),
  };
}
