/**
 * Does something for each of the items, one after the other, also after one for which it fails: none holds up the others. In
 * the end throws the first failure.
 */
export async function tryEach<T>(items: Iterable<T>, work: (item: T) => Promise<unknown>): Promise<void> {
  const failures: unknown[] = [];
  for (const item of items) await work(item).catch((error) => failures.push(error));
  if (failures.length > 0) throw failures[0];
}
