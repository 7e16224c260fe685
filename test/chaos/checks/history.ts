/** One read or write of a register (a variable), as the client observed it; times in ms of one clock. */
export type Access = {
  kind: "read" | "write";
  key: string;
  value: string;
  start: number;
  /** Infinity for a write without an answer: it may take effect at any time after its start, or never. */
  end: number;
};

type Zone = { value: string; from: number; to: number; forward: boolean };

/**
 * Returns a sentence for each register that is not linearizable: that did not behave as if every access had happened
 * at one moment between its start and its end. Every written value is unique, so the zones of Gibbons and Korach decide
 * it: the accesses of a value span a zone from the first end to the last start; zones in which that order holds must
 * not overlap, and no other zone may lie within one of them.
 */
export function violations(history: Access[]): string[] {
  return [...Map.groupBy(history, ({ key }) => key)].flatMap(([key, accesses]) => {
    const found = violationOf(accesses);
    return found ? [`${key}: ${found}`] : [];
  });
}

function violationOf(accesses: Access[]): string | undefined {
  const zones: Zone[] = [];
  for (const [value, own] of Map.groupBy(accesses, (access) => access.value)) {
    const writes = own.filter(({ kind }) => kind === "write");
    const reads = own.filter(({ kind }) => kind === "read");
    if (writes.length !== 1) return `${value} was read and written ${writes.length} times`;
    const early = reads.find(({ end }) => end < writes[0]!.start);
    if (early) return `${value} was read before it was written`;
    // A write without an answer that nobody read may never have happened.
    if (reads.length === 0 && writes[0]!.end === Infinity) continue;
    const firstEnd = Math.min(...own.map(({ end }) => end));
    const lastStart = Math.max(...own.map(({ start }) => start));
    const forward = firstEnd < lastStart;
    zones.push({
      value,
      forward,
      from: Math.min(firstEnd, lastStart),
      to: Math.max(firstEnd, lastStart),
    });
  }
  zones.sort((a, b) => a.from - b.from);
  let open: Zone | undefined;
  for (const zone of zones) {
    if (open && zone.from < open.to && (zone.forward || zone.to < open.to))
      return `${zone.value} cannot be placed: ${open.value} was the value from before it until after it`;
    if (zone.forward) open = zone;
  }
  return undefined;
}
