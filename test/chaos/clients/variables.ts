import type { Record } from "./record.ts";
import type { Work } from "./shared.ts";

/** Reads and writes single variables, and two at once: `checks/history.ts` judges them. */
export const registers =
  (record: Record): Work =>
  async (client, { project, registers: names }, random, round) => {
    const key = random.of(names);
    const path = `${project}/variables/${key}`;
    const start = performance.now();
    const choice = random.next();
    if (choice < 0.5) {
      const { status, body } = await client.send("GET", path);
      if (status !== 200) return;
      const { value } = body as { value: string };
      record.history.push({ kind: "read", key, value, start, end: performance.now() });
      return;
    }
    const value = `${start}-${round}-${random.next()}`;
    const keys = choice < 0.85 ? [key] : [...new Set([key, random.of(names)])];
    const { status } =
      choice < 0.85
        ? await client.write("PATCH", path, { value })
        : await client.write("POST", `${project}/variables/batch`, {
            set: keys.map((name) => ({ name, value })),
          });
    if (status >= 400 && status < 500) return;
    const end = status === 0 || status >= 500 ? Infinity : performance.now();
    for (const one of keys) record.history.push({ kind: "write", key: one, value, start, end });
  };

/** Creates variables and environments, each under a key. */
export const creations: Work = async (client, { environment, project }, random, round) => {
  const what = `made-${round}`;
  const name = `${what.replaceAll("-", "_").toUpperCase()}_${client.name}`;
  if (random.next() < 0.7)
    await client.effect(
      { action: "variable.create" },
      what,
      `${environment}/variables`,
      { name, value: "x" },
      random,
    );
  else
    await client.effect(
      { action: "environment.create" },
      what,
      `${project}/environments`,
      { name: `e${round}-${client.name}` },
      random,
    );
};
